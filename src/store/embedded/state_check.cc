/* state_check.cc -- reads a table of RocksDB's again, every block of it, by its checksums. The C
 * API has no call for it. Nothing is opened but the one file, so its name is what is damaged.
 *
 * Not by VerifySstFileChecksum: that takes a file for damaged which was ingested over others (as
 * many idempotency keys at once are), because it expects its global sequence number to be 0. */
#include <rocksdb/options.h>
#include <rocksdb/sst_file_reader.h>

#include <cstdio>

extern "C" bool state_table_check(const char *path, char *why_out, size_t why_size);

bool state_table_check(const char *path, char *why_out, size_t why_size)
{
    rocksdb::SstFileReader reader{rocksdb::Options()};
    rocksdb::Status status = reader.Open(path);
    if (status.ok()) status = reader.VerifyChecksum();
    if (!status.ok()) snprintf(why_out, why_size, "%s", status.ToString().c_str());
    return status.ok();
}

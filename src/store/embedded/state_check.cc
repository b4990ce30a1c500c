/* state_check.cc -- reads a table of RocksDB's again, every block of it, by its checksums. The C
 * API has no call for it. Nothing is opened but the one file, so its name is what is damaged. */
#include <rocksdb/convenience.h>
#include <rocksdb/options.h>

#include <cstdio>

extern "C" bool state_table_check(const char *path, char *why_out, size_t why_size);

bool state_table_check(const char *path, char *why_out, size_t why_size)
{
    rocksdb::Options options;
    rocksdb::Status status = rocksdb::VerifySstFileChecksum(options, rocksdb::EnvOptions(), path);
    if (!status.ok()) snprintf(why_out, why_size, "%s", status.ToString().c_str());
    return status.ok();
}

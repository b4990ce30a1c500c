/* check.cc -- reads a table of RocksDB's again, every block of it, by its checksums. The C API has
 * no call for it. Only the one file is opened, so its name is what is damaged.
 *
 * VerifySstFileChecksum would not do: it takes a file for damaged that was ingested over others (as
 * many idempotency keys at once are), because it expects its global sequence number to be 0. */
#include <rocksdb/db.h>
#include <rocksdb/metadata.h>
#include <rocksdb/options.h>
#include <rocksdb/sst_file_reader.h>

#include <memory>

struct reason;
extern "C" void reason_say(reason *why, const char *format, ...);
extern "C" bool state_table_check(const char *path, reason *why_out);
extern "C" bool state_table_is_litter(const char *dir, const char *name);

bool state_table_check(const char *path, reason *why_out)
{
    rocksdb::SstFileReader reader{rocksdb::Options()};
    rocksdb::Status status = reader.Open(path);
    if (status.ok()) status = reader.VerifyChecksum();
    if (!status.ok()) reason_say(why_out, "%s", status.ToString().c_str());
    return status.ok();
}

/* Read-only: nothing in `dir` is touched. What does not even open has no litter, only damage. */
bool state_table_is_litter(const char *dir, const char *name)
{
    rocksdb::Options options;
    std::vector<std::string> names;
    if (!rocksdb::DB::ListColumnFamilies(options, dir, &names).ok()) return false;
    std::vector<rocksdb::ColumnFamilyDescriptor> families;
    for (const std::string &each : names)
        families.emplace_back(each, options);

    std::vector<rocksdb::ColumnFamilyHandle *> handles;
    rocksdb::DB *opened = nullptr;
    if (!rocksdb::DB::OpenForReadOnly(options, dir, families, &handles, &opened).ok()) return false;
    std::unique_ptr<rocksdb::DB> db(opened);
    std::vector<rocksdb::LiveFileMetaData> live;
    db->GetLiveFilesMetaData(&live);
    bool litter = true;
    for (const rocksdb::LiveFileMetaData &file : live)
        litter = litter && file.name != std::string("/") + name;
    for (rocksdb::ColumnFamilyHandle *handle : handles)
        db->DestroyColumnFamilyHandle(handle);
    return litter;
}

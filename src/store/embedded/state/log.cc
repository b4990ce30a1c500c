/* log.cc -- RocksDB without its LOG file.
 *
 * Debian's build has its assertions on, and a LOG that cannot grow on a full disk ends the process
 * ("sync_without_flush_called_"). The C API takes a logger but cannot make one, hence these lines
 * of C++. A rocksdb_options_t is a rocksdb::Options and nothing else; the C API's own functions
 * rely on it. Errors come back as statuses and are logged by the store. */
#include <rocksdb/c.h>
#include <rocksdb/options.h>
#include <rocksdb/env.h>

extern "C" void state_options_silence(rocksdb_options_t *options);

namespace
{
class silent_logger : public rocksdb::Logger
{
  public:
    using rocksdb::Logger::Logv;
    void Logv(const char *, va_list) override
    {
    }
};
} // namespace

void state_options_silence(rocksdb_options_t *options)
{
    reinterpret_cast<rocksdb::Options *>(options)->info_log = std::make_shared<silent_logger>();
}

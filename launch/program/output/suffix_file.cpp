#include "launch/program/output/suffix_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <numeric>

#include "launch/program/input/input_text.hpp"
#include "launch/program/output/output_file.hpp"
#include "launch/program/output/warnings.hpp"
#include "node/error.hpp"

namespace yamata {
namespace {

/// Prevents other jobs from adding to a store in the same folder. On file systems without locks, the last of two simultaneous writers wins.
class FolderLock {
 public:
  explicit FolderLock(const std::string& file) {
    const std::string folder = std::filesystem::path(file).parent_path().string();
    fd_ = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd_ >= 0) (void)::flock(fd_, LOCK_EX);
  }
  ~FolderLock() {
    if (fd_ >= 0) ::close(fd_);
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int fd_;
};

constexpr std::size_t kMostTokens = 1 << 20;  // some 240 MB in memory

std::size_t tokens_of(const SuffixStore& store) {
  return std::accumulate(store.texts.begin(), store.texts.end(), std::size_t{0},
                         [](std::size_t sum, const auto& text) { return sum + text.size(); });
}

void add_texts(const SuffixStore& store, SuffixMemory& memory) {
  memory.hold(tokens_of(store));
  for (const auto& text : store.texts) memory.add(text);
}

}  // namespace

void check_store(const std::string& path, const std::string& flag) {
  std::error_code unseen;
  if (!path.empty() && std::filesystem::exists(path, unseen) && !std::filesystem::is_regular_file(path, unseen))
    throw ModelError(fmt::format("{} is no regular file; name another file with {}", path, flag));
}

/// The current contents of the file; nothing if it is damaged.
std::optional<SuffixStore> SuffixFile::store() const {
  std::error_code unseen;
  if (!std::filesystem::exists(path_, unseen)) return SuffixStore{};
  check_store(path_, flag_);
  const std::string bytes = read_text(path_, {flag_.c_str()}, [] {});  // also after an interrupt, to add to it
  if (!bytes.empty() && !bytes.starts_with(kSuffixStoreBegins))
    throw ModelError(fmt::format("{} is a file of another kind, not one that yamata wrote for {}; name another file", path_, flag_));
  const auto of_any_vocabulary = decode_suffix_store(bytes, std::numeric_limits<std::int32_t>::max());
  if (of_any_vocabulary && !bytes.empty() && of_any_vocabulary->vocabulary != vocabulary_)
    throw ModelError(fmt::format("{} has outputs of a model with another vocabulary; name another file with {}", path_, flag_));
  return decode_suffix_store(bytes, tokens_);
}

void SuffixFile::read(SuffixMemory& memory) const {
  if (path_.empty()) return;
  const auto store = this->store();
  if (!store) warn(fmt::format("{}: the suffix store is damaged; a new one is started", path_));
  if (store) add_texts(*store, memory);
}

void SuffixFile::read_datastore(SuffixMemory& memory) const {
  std::error_code unseen;
  if (!std::filesystem::exists(path_, unseen))
    throw ModelError(fmt::format("{}: there is no such file; write it with yamata tokenize -m MODEL -f TEXT {} {}", path_, flag_, path_));
  add_texts(undamaged(), memory);
}

std::shared_ptr<SuffixMemory> read_suffixes(const SuffixFile& store, const std::string& datastore,
                                            std::span<const std::string> vocabulary) {
  auto memory = std::make_shared<SuffixMemory>();
  if (datastore.empty())
    store.read(*memory);
  else
    SuffixFile(datastore, vocabulary, "--datastore").read_datastore(*memory);
  return memory;
}

SuffixStore SuffixFile::undamaged() const {
  auto all = store();
  if (!all) throw ModelError(fmt::format("{} is damaged; remove it, or name another file with {}", path_, flag_));
  return std::move(*all);
}

SuffixFile::Size SuffixFile::add(std::span<const std::vector<std::int32_t>> texts) const {
  const FolderLock lock(path_);
  SuffixStore all = undamaged();
  all.vocabulary = vocabulary_;
  all.texts.insert(all.texts.end(), texts.begin(), texts.end());
  const Size size{all.texts.size(), tokens_of(all)};
  if (size.tokens > kMostTokens)
    throw UsageError(fmt::format("{} would have {} tokens, but may have {} at most; give it less text", path_, size.tokens, kMostTokens));
  write_file(path_, encode(all));
  return size;
}

void SuffixFile::add(const SuffixMemory& memory) const {
  const auto own = memory.own_texts();
  if (path_.empty() || own.empty()) return;
  const FolderLock lock(path_);
  const SuffixStore before = store().value_or(SuffixStore{});
  const std::size_t most = std::max(SuffixMemory::kTokens, tokens_of(before));
  auto texts = before.texts;
  texts.insert(texts.end(), own.begin(), own.end());
  std::size_t first = texts.size(), tokens = 0;
  while (first > 0 && tokens + texts[first - 1].size() <= most) tokens += texts[--first].size();
  texts.erase(texts.begin(), texts.begin() + static_cast<std::ptrdiff_t>(first));
  write_file(path_, encode({vocabulary_, std::move(texts)}));
}

}  // namespace yamata

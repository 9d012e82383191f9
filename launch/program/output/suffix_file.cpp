#include "launch/program/output/suffix_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <limits>

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

}  // namespace

void check_store(const std::string& path) {
  std::error_code unseen;
  if (!path.empty() && std::filesystem::exists(path, unseen) && !std::filesystem::is_regular_file(path, unseen))
    throw ModelError(fmt::format("{} is no regular file; name another file with --suffix-store", path));
}

/// The current contents of the file; nothing if it is damaged.
std::optional<SuffixStore> SuffixFile::store() const {
  std::error_code unseen;
  if (!std::filesystem::exists(path_, unseen)) return SuffixStore{};
  check_store(path_);
  const std::string bytes = read_text(path_, {"--suffix-store"}, [] {});  // also after an interrupt, to add to it
  if (!bytes.empty() && !bytes.starts_with(kSuffixStoreBegins))
    throw ModelError(fmt::format("{} is not a suffix store; name another file with --suffix-store, or remove it", path_));
  const auto of_any_vocabulary = decode_suffix_store(bytes, std::numeric_limits<std::int32_t>::max());
  if (of_any_vocabulary && !bytes.empty() && of_any_vocabulary->vocabulary != vocabulary_)
    throw ModelError(fmt::format("{} has outputs of a model with another vocabulary; name another file with --suffix-store", path_));
  return decode_suffix_store(bytes, tokens_);
}

void SuffixFile::read(SuffixMemory& memory) const {
  if (path_.empty()) return;
  const auto store = this->store();
  if (!store) warn(fmt::format("{}: the suffix store is damaged; a new one is started", path_));
  for (const auto& text : store.value_or(SuffixStore{}).texts) memory.add(text);
}

void SuffixFile::add(const SuffixMemory& memory) const {
  const auto own = memory.own_texts();
  if (path_.empty() || own.empty()) return;
  const FolderLock lock(path_);
  auto texts = store().value_or(SuffixStore{}).texts;
  texts.insert(texts.end(), own.begin(), own.end());
  std::size_t first = texts.size(), tokens = 0;
  while (first > 0 && tokens + texts[first - 1].size() <= SuffixMemory::kTokens) tokens += texts[--first].size();
  texts.erase(texts.begin(), texts.begin() + static_cast<std::ptrdiff_t>(first));
  write_file(path_, encode({vocabulary_, std::move(texts)}));
}

}  // namespace yamata

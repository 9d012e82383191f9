// Files that are truncated while they are mapped.
#include "node/lost_pages.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <optional>

#include "tests/temporary_folder.hpp"

namespace yamata {
namespace {

constexpr std::size_t kBytes = 1 << 20;

/// A file of ones, mapped.
class MappedFile {
 public:
  MappedFile() {
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    const std::string ones(kBytes, '\1');
    EXPECT_EQ(write(fd, ones.data(), ones.size()), static_cast<ssize_t>(kBytes));
    memory_ = mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
  }
  ~MappedFile() { munmap(memory_, kBytes); }
  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(memory_), kBytes}; }
  /// Reads the memory each time.
  int at(std::size_t i) const { return static_cast<const volatile unsigned char*>(memory_)[i]; }
  void truncate_to(std::size_t bytes) const { ASSERT_EQ(truncate(path.c_str(), static_cast<off_t>(bytes)), 0); }

 private:
  const test::TemporaryFolder folder_;

 public:
  const std::string path = folder_ / "model.gguf";

 private:
  void* memory_ = nullptr;
};

TEST(LostPages, WatchedMapping_readsAsZerosAndItsFileIsNamed) {
  survive_lost_pages();
  const MappedFile intact, cut;
  std::optional<WatchedMapping> watch_intact(std::in_place, intact.bytes(), intact.path), watch(std::in_place, cut.bytes(), cut.path);
  cut.truncate_to(kBytes / 2);
  EXPECT_EQ(cut.at(kBytes / 2 - 1), 1);
  EXPECT_NO_THROW(require_pages()) << "what was read is there";
  EXPECT_EQ(cut.at(kBytes - 1), 0);
  EXPECT_EQ(cut.at(0), 0) << "nothing of it counts any more";
  EXPECT_EQ(intact.at(kBytes - 1), 1);
  try {
    require_pages();
    FAIL() << "nothing was missed";
  } catch (const LostPages& e) {
    EXPECT_NE(std::string(e.what()).find(cut.path), std::string::npos) << e.what();
    EXPECT_EQ(e.code(), ExitCode::kModel);
  }
  watch.reset();
  EXPECT_NO_THROW(require_pages()) << "nobody reads it any more";
}

[[noreturn]] void read_unwatched_page(const MappedFile& watched, const MappedFile& unwatched) {
  survive_lost_pages();
  const WatchedMapping watch(watched.bytes(), watched.path);
  unwatched.truncate_to(0);
  std::exit(unwatched.at(0));
}

[[noreturn]] void receive_bus_error(const MappedFile& watched) {
  survive_lost_pages();
  const WatchedMapping watch(watched.bytes(), watched.path);
  raise(SIGBUS);
  std::exit(0);
}

TEST(LostPagesDeathTest, OtherMemory_endsTheProcessAsBefore) {
  const MappedFile watched, unwatched;  // of this process, which removes them
  EXPECT_EXIT(read_unwatched_page(watched, unwatched), testing::KilledBySignal(SIGBUS), "");
  EXPECT_EXIT(receive_bus_error(watched), testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace yamata

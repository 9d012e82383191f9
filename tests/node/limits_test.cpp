#include "node/limits.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "node/mapped_file.hpp"
#include "tests/node/little_memory.hpp"
#include "tests/temporary_folder.hpp"

namespace yamata::test {
namespace {

TEST(Limits, ThreadThatCannotStart_hasACauseAndARemedy) {
  const std::string message = refused(std::system_error(EAGAIN, std::generic_category())).what();
  EXPECT_EQ(
      message,
      "cannot start a thread: Resource temporarily unavailable; raise the limit of processes (ulimit -u), of memory (ulimit -v) or of "
      "the container");
}

TEST(Limits, OtherErrorsOfTheSystem_keepTheirCause) {
  const std::filesystem::filesystem_error error("cannot list", "/folder", std::make_error_code(std::errc::permission_denied));
  const std::string message = refused(error).what();
  EXPECT_NE(message.find("Permission denied"), std::string::npos) << message;
  EXPECT_NE(message.find("/folder"), std::string::npos) << message;
  EXPECT_EQ(message.find("ulimit"), std::string::npos) << message;
}

#ifdef YAMATA_TEST_LITTLE_MEMORY
TEST(LimitsDeathTest, ThreadsThatCannotStart_areNoticed) {
  EXPECT_TRUE(can_start_threads(2));
  const auto many = [] {
    if (!can_start_threads(2000)) throw ModelError("too many");
  };
  EXPECT_EXIT(end_in_little_memory(many), testing::ExitedWithCode(2), "too many");
}

TEST(LimitsDeathTest, FileThatCannotBeMapped_isNamedWithTheLimit) {
  const TemporaryFolder folder;
  const std::string path = folder / "large";
  std::ofstream(path).put('x');
  std::filesystem::resize_file(path, std::uintmax_t{1} << 30);
  EXPECT_EXIT(end_in_little_memory([&] { const MappedFile file(path); }), testing::ExitedWithCode(2),
              "cannot map .*large: Cannot allocate memory; free some memory, or raise ulimit -v, which allows [0-9]+ MiB");
}
#endif

}  // namespace
}  // namespace yamata::test

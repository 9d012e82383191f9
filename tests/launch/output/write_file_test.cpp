// Where output files go: links, pipes, sockets.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "launch/program/input/interrupts.hpp"
#include "launch/program/output/output_file.hpp"
#include "mpi/cluster/head.hpp"
#include "node/error.hpp"
#include "tests/launch/process.hpp"

namespace yamata::test {
namespace {

TEST(WriteFile, Link_isFollowed) {
  const TemporaryFolder folder;
  const std::string file = folder / "file", link = folder / "link";
  write_file(file, "{}");
  std::filesystem::create_symlink("file", link);
  check_writable({link, OutputKind::kJson}, {});
  yamata::write_file(link, "text");
  EXPECT_EQ(read_file(file), "text");
  EXPECT_TRUE(std::filesystem::is_symlink(link));
}

TEST(WriteFile, LinkToAFileThatDoesNotExist_isFollowed) {
  const TemporaryFolder folder;
  const std::string file = folder / "file", link = folder / "link", loop = folder / "loop";
  std::filesystem::create_symlink("file", folder / "next");
  std::filesystem::create_symlink("next", link);
  std::filesystem::create_symlink("loop", loop);
  check_writable({link, OutputKind::kJson}, {});
  EXPECT_THROW(check_outputs({{link, OutputKind::kJson}, {file, OutputKind::kTrace}}, {}), UsageError);
  yamata::write_file(link, "text");
  EXPECT_EQ(read_file(file), "text");
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_THROW(check_writable({loop, OutputKind::kJson}, {}), ModelError);
}

TEST(WriteFile, Pipe_isWrittenTo) {
  const TemporaryFolder folder;
  const std::string path = folder / "pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const int reader = open(path.c_str(), O_RDONLY | O_NONBLOCK);
  check_writable({path, OutputKind::kJson}, {});
  yamata::write_file(path, "text");
  char got[8];
  EXPECT_EQ(read(reader, got, sizeof got), 4);
  EXPECT_TRUE(std::filesystem::is_fifo(path));
  close(reader);
}

TEST(WriteFile, Socket_isRefusedAtOnce) {
  const TemporaryFolder folder;
  const std::string path = folder / "socket";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_THROW(yamata::write_file(path, "text"), ModelError);
  close(fd);
}

TEST(WriteFile, PipeWithoutReader_isLeftAtAnInterrupt) {
  const TemporaryFolder folder;
  const std::string pipe = folder / "pipe", file = folder / "file";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  g_interrupted = true;
  const auto text = [] { return std::string("text"); };
  EXPECT_THROW(write_outputs({{.path = pipe, .text = text}, {.path = file, .text = text}}), Interrupted);
  g_interrupted = false;
  EXPECT_EQ(read_file(file), "text");
}

TEST(WriteFile, PipeWithoutReader_isAnErrorAfterTheDeadline) {
  const TemporaryFolder folder;
  const std::string pipe = folder / "pipe", file = folder / "file";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const auto text = [] { return std::string("text"); };
  try {
    write_outputs({{.path = pipe, .text = text}, {.path = file, .text = text}}, std::chrono::steady_clock::now());
    FAIL() << "nothing was thrown";
  } catch (const ModelError& error) {
    EXPECT_EQ(error.what(), pipe + " was not written: no process read this named pipe in time; start its reader first");
  }
  EXPECT_EQ(read_file(file), "text");
}

}  // namespace
}  // namespace yamata::test

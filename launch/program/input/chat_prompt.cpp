#include "launch/program/input/chat_prompt.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "launch/program/input/input_text.hpp"
#include "node/error.hpp"

namespace yamata {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kScript = "python/serving/render_prompt.py";
constexpr std::size_t kMostBytes = std::size_t{64} << 20;

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { reset(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  void reset() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

/// The script, in the clone or the installation that this program is in; empty: it is in neither.
std::string find_script() {
  std::error_code unseen;
  const fs::path folder = fs::read_symlink("/proc/self/exe", unseen).parent_path();
  for (const char* launch : {"../launch", "../share/yamata/launch"}) {
    const fs::path script = folder / launch / kScript;
    if (fs::is_regular_file(script, unseen)) return script.lexically_normal();
  }
  return "";
}

/// A file without a name that holds the text, to be read from its beginning.
void write_input(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = write(fd, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) throw UsageError(fmt::format("--chat cannot pass the message on: {}; free some memory", std::strerror(errno)));
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  lseek(fd, 0, SEEK_SET);
}

/// A child process, which is killed if it is not waited for.
class Child {
 public:
  Child(const std::string& script, int input, int output) {
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, input, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t none, all;  // this process may block and ignore signals
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    const std::array<const char*, 4> words{"python3", "-B", script.c_str(), nullptr};
    const int error = posix_spawnp(&process_, words[0], &files, &attributes, const_cast<char* const*>(words.data()), environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    if (error) throw UsageError(fmt::format("--chat cannot start python3: {}; install it", std::strerror(error)));
  }
  ~Child() {
    kill(process_, SIGKILL);
    while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

 private:
  pid_t process_ = 0;
};

std::string answer_to(const std::string& question, const std::function<void()>& while_waiting) {
  const std::string script = find_script();
  if (script.empty())
    throw UsageError("--chat needs the scripts of yamata beside the program; start it from the build folder of a clone, or install it");
  Descriptor input(memfd_create("yamata-chat", MFD_CLOEXEC));
  write_input(input.get(), question);
  std::array<int, 2> ends{-1, -1};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw UsageError(fmt::format("--chat cannot make a pipe: {}; close files", std::strerror(errno)));
  Descriptor ours(ends[0]), theirs(ends[1]);
  const Child child(script, input.get(), theirs.get());
  theirs.reset();
  std::string answer;
  read_all(ours.get(), kMostBytes, answer, while_waiting);
  return answer;
}

}  // namespace

std::string render_chat(const ChatTemplate& chat, const std::string& message, const std::function<void()>& while_waiting) {
  const Json question{{"template", chat.source},
                      {"bos", chat.bos},
                      {"eos", chat.eos},
                      {"messages", Json::array({{{"role", "user"}, {"content", message}}})}};
  // Bytes that are no text become replacement characters, as in any JSON.
  const std::string answer = answer_to(question.dump(-1, ' ', true, Json::error_handler_t::replace), while_waiting);
  const Json read = Json::parse(answer, nullptr, false);
  if (read.is_object() && read.contains("text") && read["text"].is_string()) return read["text"].get<std::string>();
  const bool says = read.is_object() && read.contains("error") && read["error"].is_string();
  throw UsageError("--chat: " + (says ? read["error"].get<std::string>() : "the program that renders templates failed; try launch/serve"));
}

}  // namespace yamata

#pragma once
// An open file of the system.
#include <unistd.h>

#include <utility>

namespace yamata {

/// Closes it at the end; move-only.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  /// Owns `number`; a negative one is none.
  explicit FileDescriptor(int number) : number_(number) {}
  ~FileDescriptor() { close(); }
  FileDescriptor(FileDescriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    if (this != &other) {
      close();
      number_ = std::exchange(other.number_, -1);
    }
    return *this;
  }

  int get() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }

 private:
  void close() {
    if (number_ >= 0) ::close(number_);
    number_ = -1;
  }
  int number_ = -1;
};

}  // namespace yamata

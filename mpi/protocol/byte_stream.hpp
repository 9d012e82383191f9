#pragma once
// Serialization of numbers, lists and strings into the bytes of a message.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "node/error.hpp"

namespace yamata::wire {

using Bytes = std::vector<std::byte>;

class Writer {
 public:
  template <class T>
  Writer& put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    const auto* p = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), p, p + sizeof(T));
    return *this;
  }
  template <class T>
  Writer& put_all(std::span<const T> values) {
    const auto* p = reinterpret_cast<const std::byte*>(values.data());
    put(static_cast<std::uint64_t>(values.size()));
    bytes_.insert(bytes_.end(), p, p + values.size_bytes());
    return *this;
  }
  Writer& put_text(const std::string& text) { return put_all(std::span<const char>(text)); }
  void reserve(std::size_t n) { bytes_.reserve(n); }
  Bytes take() { return std::move(bytes_); }

 private:
  Bytes bytes_;
};

/// Throws ClusterError if the bytes end too early or too late.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}
  template <class T>
  T get() {
    T value;
    std::memcpy(&value, take(sizeof(T)), sizeof(T));
    return value;
  }
  template <class T>
  std::vector<T> get_all() {
    const std::size_t n = count(sizeof(T));
    std::vector<T> values(n);
    if (n) std::memcpy(values.data(), take(n * sizeof(T)), n * sizeof(T));
    return values;
  }
  template <class T>
  std::span<const T> view_all() {
    const std::size_t n = count(sizeof(T));
    return {reinterpret_cast<const T*>(take(n * sizeof(T))), n};
  }
  std::string get_text() {
    const auto text = get_all<char>();
    return {text.begin(), text.end()};
  }
  void end() const {
    if (!rest_.empty()) fail();
  }

  [[noreturn]] static void fail() { throw ClusterError("a message from another rank is damaged; do all ranks run the same yamata?"); }

  const std::byte* take(std::size_t n) {
    if (n > rest_.size()) fail();
    const std::byte* p = rest_.data();
    rest_ = rest_.subspan(n);
    return p;
  }
  /// Reads a count of items of at least this many bytes each; checks that the message has these bytes, before memory is reserved.
  std::size_t count(std::size_t least_bytes) {
    const auto n = get<std::uint64_t>();
    if (n > rest_.size() / least_bytes) fail();
    return static_cast<std::size_t>(n);
  }

 private:
  std::span<const std::byte> rest_;
};

}  // namespace yamata::wire

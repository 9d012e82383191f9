#pragma once
// One file of what earlier jobs measured: small texts, each under a name and for a limited time.
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace yamata {

/// The file's name in the cache folder, and its largest size. While it is replaced, there are two.
constexpr const char* kMeasurementsFile = "measurements";
constexpr std::size_t kMaxKeptBytes = 256 << 10;

/// What is in a folder's file now. Nothing if there is no such file, or if it is none of Yamata's, too large, or no regular file.
class KeptValues {
 public:
  explicit KeptValues(const std::string& folder);
  /// The text under a name; empty if there is none. Valid as long as this object.
  std::string_view find(std::string_view name) const;

 private:
  std::string content_;
};

struct KeptValue {
  std::string name;          ///< without spaces
  std::string text;          ///< one line
  std::int64_t until_s = 0;  ///< when it expires, in seconds since the epoch; at most two days from now
};

/// Puts a value into the folder's file, in place of the one with its name. Values that have expired are removed, and the oldest ones if the
/// file becomes too large. Once a day, and when the file is new, files of older versions of the program are removed from the folder.
///
/// Processes that keep values at the same time wait for each other, so that no value is lost, but not longer than `patience`: a stopped
/// process may hold the lock. Then the value is not kept, nor if the folder cannot be written: that is no error. If the file system has no
/// locks (flock), the value is kept, but others that are kept at the same moment may be lost.
void keep_value(const std::string& folder, const KeptValue& value, std::int64_t now_s,
                std::chrono::milliseconds patience = std::chrono::seconds(1));

}  // namespace yamata

#pragma once
// The flags of a command: all that is said of each.
#include <string>
#include <string_view>
#include <vector>

namespace yamata {

/// What follows a flag on the command line.
enum class FlagKind {
  kSwitch,  ///< nothing
  kInt,     ///< a number, as the four after it; one that is not is refused when the command line is parsed
  kUint64,
  kFloat,
  kDouble,
  kWord,    ///< a word; whoever reads it checks it
  kWords,   ///< words between commas; repeatable
  kText,    ///< any text, even one that looks like a flag
  kFile,    ///< the name of a file, likewise; not empty
  kFiles,   ///< names between commas; repeatable
  kFolder,  ///< the name of a folder
};

/// Whether the word after the flag is taken as it is, whatever it looks like.
bool takes_text(FlagKind kind);
bool takes_files(FlagKind kind);

struct Flag {
  std::string group;                 ///< the heading under which --help shows it; kUnlistedGroup: it does not
  std::vector<std::string> spelled;  ///< all that may be written, with the dashes: "-n", "--predict"; "-ngl", "--gpu-layers"
  std::string name;                  ///< the first long one, without dashes: by it the value is read
  std::string help;
  FlagKind kind = FlagKind::kSwitch;
  std::string placeholder;  ///< for the value, in --help
  std::string fallback;     ///< the value if the flag is not given; empty: none

  /// Of one letter, such as "-n"; empty: none.
  std::string letter() const;
  /// As documents write it where there are several: of two or three letters ("-md"), else long ("--predict").
  std::string shown() const;
};

/// Flags that a command knows, but that are of no use in it.
inline constexpr char kUnlistedGroup[] = "Unlisted";

class Flags;

/// Declares flags of one group.
class FlagGroup {
 public:
  FlagGroup(Flags& flags, std::string name) : flags_(flags), name_(std::move(name)) {}
  /// `spelled`: "-n, --predict"; one of two or three letters stands before the long one, too.
  const FlagGroup& operator()(const char* spelled, std::string help, FlagKind kind = FlagKind::kSwitch, std::string placeholder = "",
                              std::string fallback = "") const;

 private:
  Flags& flags_;
  std::string name_;
};

class Flags {
 public:
  /// `words`: the arguments in the line "Usage", where the command takes others than flags.
  Flags(std::string command, std::string what, std::string words = "")
      : command_(std::move(command)), what_(std::move(what)), words_(std::move(words)) {}

  FlagGroup group(std::string name) { return {*this, std::move(name)}; }
  void add(Flag flag) { all_.push_back(std::move(flag)); }

  const std::string& command() const { return command_; }
  const std::string& what() const { return what_; }
  const std::string& words() const { return words_; }
  bool takes_words() const { return !words_.empty(); }
  const std::vector<Flag>& all() const { return all_; }
  /// The names of a group's flags.
  std::vector<std::string> names(const std::string& group) const;
  /// The flag that is written so, with its dashes; nullptr: none.
  const Flag* find(std::string_view spelled) const;
  /// What may be written of the flags that --help shows, in its order.
  std::vector<std::string> listed() const;
  /// The groups that --help shows, in its order.
  std::vector<std::string> listed_groups() const;

 private:
  std::string command_, what_, words_;
  std::vector<Flag> all_;
};

}  // namespace yamata

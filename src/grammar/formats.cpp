#include "src/grammar/formats.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <string_view>
#include <vector>

#include "node/error.hpp"

namespace yamata {
namespace {

const std::string kDate =
    "([1-9][0-9]{3}-(0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|[1-9][0-9]{3}-(0[469]|11)-(0[1-9]|[12][0-9]|30)|"
    "[1-9][0-9]{3}-02-(0[1-9]|1[0-9]|2[0-8])|([1-9][0-9](0[48]|[2468][048]|[13579][26])|([2468][048]|[13579][26])00)-02-29)";
const std::string kTime = "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])";
const std::string kByte = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
const std::string kLabel = "[a-zA-Z0-9]([a-zA-Z0-9-]{0,30}[a-zA-Z0-9])?";
const std::string kHost = kLabel + "(\\." + kLabel + "){0,4}";

const std::map<std::string, std::string, std::less<>>& formats() {
  static const std::map<std::string, std::string, std::less<>> all{
      {"date", kDate},
      {"time", kTime},
      {"date-time", kDate + "T" + kTime},
      {"duration",
       "P([0-9]{1,4}D(T[0-9]{1,4}H([0-9]{1,4}M([0-9]{1,4}S)?)?)?|T[0-9]{1,4}(H([0-9]{1,4}M([0-9]{1,4}S)?)?|M([0-9]{1,4}S)?|S)|"
       "[0-9]{1,4}W)"},
      {"email", "[a-zA-Z0-9_+-]+(\\.[a-zA-Z0-9_+-]+)*@" + kHost},
      {"hostname", kHost},
      {"ipv4", kByte + "(\\." + kByte + "){3}"},
      {"ipv6", "[0-9a-fA-F]{1,4}(:[0-9a-fA-F]{1,4}){7}"},
      {"uri", "(https?|ftp)://" + kHost + "(:[1-9][0-9]{0,3})?(/[a-zA-Z0-9._~!$&'()*+,;=:@-]*)*(\\?[a-zA-Z0-9._~!$&'()*+,;=:@/?-]*)?"},
      {"uuid", "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"},
  };
  return all;
}

}  // namespace

std::string pattern_of_format(std::string_view format) {
  const auto found = formats().find(format);
  if (found == formats().end()) {
    std::vector<std::string_view> supported;
    for (const auto& [name, pattern] : formats()) supported.push_back(name);
    throw UsageError(fmt::format("'format': '{}' is not supported (supported: {})", format, fmt::join(supported, ", ")));
  }
  return "^(" + found->second + ")$";
}

}  // namespace yamata

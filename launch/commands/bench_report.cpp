#include "launch/commands/bench_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "node/tensor_type.hpp"

namespace yamata {
namespace {

using Json = nlohmann::ordered_json;

std::vector<double> as_doubles(const std::vector<std::uint64_t>& values) { return {values.begin(), values.end()}; }

Json fields(const BenchRow& r) {
  const std::vector<double> ns = as_doubles(r.samples_ns), ts = r.samples_ts();
  const auto whole = [](double x) { return static_cast<std::uint64_t>(std::llround(x)); };
  return {{"build_commit", r.build_commit},
          {"cpu_info", r.cpu_info},
          {"backends", r.backends},
          {"model_filename", r.model_filename},
          {"model_type", r.model_type},
          {"model_size", r.model_size},
          {"model_n_params", r.model_n_params},
          {"n_ranks", r.n_ranks},
          {"n_batch", r.n_batch},
          {"n_threads", r.n_threads},
          {"no_repack", r.no_repack},
          {"type_k", r.type_k},
          {"type_v", r.type_v},
          {"n_prompt", r.test.prompt},
          {"n_gen", r.test.generate},
          {"n_width", r.test.width},
          {"n_depth", r.test.depth},
          {"test", r.test.name()},
          {"test_time", r.test_time},
          {"avg_ns", whole(mean(ns))},
          {"stddev_ns", whole(standard_deviation(ns))},
          {"avg_ts", mean(ts)},
          {"stddev_ts", standard_deviation(ts)},
          {"samples_ns", r.samples_ns},
          {"samples_ts", ts}};
}

Json with_ranks(const BenchRow& r) {
  Json j = fields(r);
  j["per_rank"] = Json::array();
  for (const BenchRank& p : r.per_rank) {
    j["per_rank"].push_back({{"rank", p.rank},
                             {"host", p.host},
                             {"layers", p.layers},
                             {"isa", p.isa},
                             {"device", p.device},
                             {"threads", p.threads},
                             {"busy_ms_per_token", p.busy_ms},
                             {"wait_ms_per_token", p.wait_ms}});
  }
  return j;
}

/// In quotes; quotes within the text are doubled.
std::string quoted(const std::string& text, char quote) {
  std::string out(1, quote);
  for (const char c : text) out += c == quote ? std::string(2, c) : std::string(1, c);
  return out + quote;
}

/// Numbers without quotes, texts and lists in quotes.
std::string value_text(const Json& value, char quote) {
  if (value.is_boolean()) return value.get<bool>() ? "1" : "0";
  if (value.is_number()) return value.dump();
  return quoted(value.is_string() ? value.get<std::string>() : value.dump(), quote);
}

class CsvPrinter final : public BenchPrinter {
 public:
  std::string begin() override { return fmt::format("{}\n", fmt::join(names(), ",")); }
  std::string row(const BenchRow& row) override {
    std::vector<std::string> values;
    for (const auto& value : fields(row)) values.push_back(value_text(value, '"'));
    return fmt::format("{}\n", fmt::join(values, ","));
  }

 private:
  static std::vector<std::string> names() {
    std::vector<std::string> all;
    const Json example = fields({});
    for (const auto& [name, value] : example.items()) all.push_back(name);
    return all;
  }
};

class SqlPrinter final : public BenchPrinter {
 public:
  std::string begin() override {
    std::vector<std::string> columns;
    const Json example = fields({});
    for (const auto& [name, value] : example.items()) {
      const char* type = value.is_number_float() ? "REAL" : value.is_number() || value.is_boolean() ? "INTEGER" : "TEXT";
      columns.push_back(fmt::format("  {} {}", name, type));
    }
    return fmt::format("CREATE TABLE IF NOT EXISTS yamata_bench (\n{}\n);\n\n", fmt::join(columns, ",\n"));
  }
  std::string row(const BenchRow& row) override {
    std::vector<std::string> names, values;
    const Json all = fields(row);
    for (const auto& [name, value] : all.items()) {
      names.push_back(name);
      values.push_back(value_text(value, '\''));
    }
    return fmt::format("INSERT INTO yamata_bench ({}) VALUES ({});\n", fmt::join(names, ", "), fmt::join(values, ", "));
  }
};

class JsonPrinter final : public BenchPrinter {
 public:
  std::string begin() override { return "[\n"; }
  std::string row(const BenchRow& row) override {
    return (std::exchange(first_, false) ? "" : ",\n") + with_ranks(row).dump(2, ' ', false, Json::error_handler_t::replace);
  }
  std::string end() override { return "\n]\n"; }

 private:
  bool first_ = true;
};

class JsonLinesPrinter final : public BenchPrinter {
 public:
  std::string row(const BenchRow& row) override { return with_ranks(row).dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"; }
};

std::string size_text(std::uint64_t bytes) {
  constexpr double kMiB = 1048576, kGiB = 1024 * kMiB;
  const auto size = static_cast<double>(bytes);
  return size >= kGiB ? fmt::format("{:.2f} GiB", size / kGiB) : fmt::format("{:.2f} MiB", size / kMiB);
}

std::string count_text(std::uint64_t numbers) {
  const auto count = static_cast<double>(numbers);
  return count >= 1e9 ? fmt::format("{:.2f} B", count / 1e9) : fmt::format("{:.2f} M", count / 1e6);
}

class MarkdownPrinter final : public BenchPrinter {
 public:
  explicit MarkdownPrinter(const BenchOptions& options) : widths_(options.has_widths()), batches_(options.batches.size() > 1) {}

  std::string begin() override {
    std::string head = "|", rule = "|";
    for (const Cell& cell : cells({})) {
      head += cell.left ? fmt::format(" {:<{}} |", cell.name, cell.width) : fmt::format(" {:>{}} |", cell.name, cell.width);
      const auto dashes = static_cast<std::size_t>(cell.width - (cell.left ? 0 : 1));
      rule += fmt::format(" {}{} |", std::string(dashes, '-'), cell.left ? "" : ":");
    }
    return fmt::format("{}\n{}\n", head, rule);
  }

  std::string row(const BenchRow& row) override {
    std::string line = "|";
    for (const Cell& cell : cells(row))
      line += cell.left ? fmt::format(" {:<{}} |", cell.value, cell.width) : fmt::format(" {:>{}} |", cell.value, cell.width);
    if (row.per_rank.size() > 1) shares_ += shares(row);
    return line + "\n";
  }

  std::string end() override {
    if (shares_.empty()) return "";
    const std::string head = fmt::format(kShare, "test", "threads", "type_k", "type_v", "rank", "host", "layers", "unit", "isa",
                                         "busy ms/token", "wait ms/token");
    const std::string rule = fmt::format("|{:->17}:|{:->8}:|{:->7}:|{:->7}:|{:->5}:|{:->18}|{:->12}|{:->18}|{:->14}|{:->14}:|{:->14}:|\n",
                                         "", "", "", "", "", "", "", "", "", "", "");
    return "\n" + head + rule + shares_;
  }

 private:
  struct Cell {
    const char* name;
    int width;
    bool left;
    std::string value;
  };

  std::vector<Cell> cells(const BenchRow& r) const {
    const std::vector<double> ts = r.samples_ts();
    std::vector<Cell> all{{"model", 24, true, r.model_type},
                          {"size", 10, false, size_text(r.model_size)},
                          {"params", 10, false, count_text(r.model_n_params)},
                          {"backend", 14, true, r.backends},
                          {"threads", 7, false, std::to_string(r.n_threads)}};
    if (batches_) all.push_back({"n_batch", 7, false, std::to_string(r.n_batch)});
    all.push_back({"type_k", 6, false, r.type_k});
    all.push_back({"type_v", 6, false, r.type_v});
    all.push_back({"test", 16, false, r.test.name()});
    const bool run = r.test.width > 0;
    if (widths_) all.push_back({"ms/run", 10, false, run ? fmt::format("{:.3f}", mean(as_doubles(r.samples_ns)) / 1e6) : "-"});
    all.push_back({"t/s", 20, false, fmt::format("{:.2f} ± {:.2f}", mean(ts), standard_deviation(ts))});
    return all;
  }

  static constexpr const char* kShare =
      "| {:>16} | {:>7} | {:>6} | {:>6} | {:>4} | {:<16} | {:<10} | {:<16} | {:<12} | {:>13} | {:>13} |\n";
  static std::string shares(const BenchRow& row) {
    std::string lines;
    for (const BenchRank& p : row.per_rank) {
      lines += fmt::format(kShare, row.test.name(), p.threads, row.type_k, row.type_v, p.rank, p.host, p.layers, p.device, p.isa,
                           fmt::format("{:.3f}", p.busy_ms), fmt::format("{:.3f}", p.wait_ms));
    }
    return lines;
  }

  bool widths_, batches_;
  std::string shares_;
};

}  // namespace

double mean(const std::vector<double>& values) {
  return values.empty() ? 0 : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double standard_deviation(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  const double middle = mean(values);
  double squares = 0;
  for (const double x : values) squares += (x - middle) * (x - middle);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

std::vector<double> BenchRow::samples_ts() const {
  std::vector<double> all;
  for (const std::uint64_t ns : samples_ns) all.push_back(test.tokens() * 1e9 / static_cast<double>(std::max<std::uint64_t>(ns, 1)));
  return all;
}

std::string model_type(const gguf::File& file, const Hyperparameters& h) {
  std::uint64_t numbers = 0;
  std::map<std::string_view, std::uint64_t> bytes_of_type;
  for (const gguf::Tensor& tensor : file.tensors()) {
    numbers += static_cast<std::uint64_t>(tensor.rows() * tensor.cols());
    bytes_of_type[traits(tensor.type).name] += tensor.bytes;
  }
  const auto most =
      std::max_element(bytes_of_type.begin(), bytes_of_type.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  const auto count = static_cast<double>(numbers);
  const std::string size = count >= 1e9 ? fmt::format("{:.1f}B", count / 1e9) : fmt::format("{:.0f}M", count / 1e6);
  return fmt::format("{} {} {}", h.family->name, size, most->first);
}

void describe_model(const gguf::File& file, const Hyperparameters& h, BenchRow& row) {
  row.model_type = model_type(file, h);
  for (const gguf::Tensor& tensor : file.tensors()) {
    row.model_size += tensor.bytes;
    row.model_n_params += static_cast<std::uint64_t>(tensor.rows() * tensor.cols());
  }
}

std::string cache_type_name(CacheType type) { return type == CacheType::kF16 ? "f16" : type == CacheType::kF32 ? "f32" : "q8_0"; }

std::unique_ptr<BenchPrinter> BenchPrinter::make(const std::string& format, const BenchOptions& options) {
  if (format == "csv") return std::make_unique<CsvPrinter>();
  if (format == "json") return std::make_unique<JsonPrinter>();
  if (format == "jsonl") return std::make_unique<JsonLinesPrinter>();
  if (format == "sql") return std::make_unique<SqlPrinter>();
  return std::make_unique<MarkdownPrinter>(options);
}

}  // namespace yamata

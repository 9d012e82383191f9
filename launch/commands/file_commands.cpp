// yamata tokenize and yamata inspect: information from a model's file, without running it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "cache/state_store.hpp"
#include "launch/commands/commands.hpp"
#include "launch/commands/tree_report.hpp"
#include "launch/program/input/input_text.hpp"
#include "launch/program/job/guessing.hpp"
#include "launch/program/options/prompt_list.hpp"
#include "launch/program/options/text_encoding.hpp"
#include "launch/program/output/output_file.hpp"
#include "launch/program/output/standard_output.hpp"
#include "launch/program/output/suffix_file.hpp"
#include "launch/program/output/tokenizer_warnings.hpp"
#include "mpi/decoding/speculation_options.hpp"
#include "mpi/planning/layer_split.hpp"
#include "mpi/planning/layout.hpp"
#include "mpi/planning/memory_plan.hpp"
#include "mpi/protocol/wire.hpp"
#include "node/counted.hpp"
#include "node/cpu/probe/probe.hpp"
#include "node/error.hpp"
#include "node/mib.hpp"
#include "node/topology.hpp"
#include "src/model/model_file.hpp"
#include "src/model/weights.hpp"
#include "src/tokenizer/tokenizer.hpp"

namespace yamata {
namespace {

/// A metadata value as a short text.
std::string brief(const gguf::Value& value) {
  return std::visit(
      [](const auto& v) -> std::string {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::string>) {
          return v.size() > 80 ? fmt::format("\"{}...\" ({} bytes)", v.substr(0, 60), v.size()) : fmt::format("\"{}\"", v);
        } else if constexpr (std::is_arithmetic_v<T>) {
          return fmt::format("{}", v);
        } else {
          return fmt::format("[{} values]", v.size());
        }
      },
      value);
}

/// Prints the kind of model, and the bytes that are read per token.
void print_model(const gguf::File& file, const Hyperparameters& h) {
  const std::int64_t windowed = windowed_layers(h, {0, h.layers});
  std::int64_t mixed = 0;
  for (std::int64_t layer = 0; layer < h.layers; ++layer) mixed += h.layer_at(layer).experts > 0;
  const auto held = stage_bytes(file, h, {0, h.layers}), read = read_bytes(file, h, {0, h.layers});
  print_out("\nmodel\n  family {}, {} layers, {} heads, {} key/value heads\n", h.family->name, h.layers, h.heads, h.kv_heads);
  if (mixed > 0) print_out("  {} experts in {} layers; each token uses {}\n", h.layer.experts, mixed, h.layer.experts_used);
  if (h.layer.streams > 0) print_out("  hyper-connections: {} residual streams of {} values\n", h.layer.streams, h.dim);
  if (h.ngrams.any()) {
    print_out("  n-gram embeddings in layer {}: {} rows of {} values for each token; their table stays in the file\n", h.ngrams.layer,
              h.ngrams.heads, h.ngrams.head_dim);
  }
  if (h.is_latent()) print_out("  latent attention, {} cached values per token and layer\n", h.head_dim);
  if (h.is_sparse())
    print_out("  sparse attention to {} tokens, picked by an index of {} cached values\n", h.layer.picked, h.layer.index_dim);
  const std::int64_t recurrent = recurrent_layers(h, {0, h.layers});
  const auto state_bytes = static_cast<double>(StateStore::bytes_for(h.state, recurrent, {.inputs = 0, .states = 1}));
  const char* mixer = h.state.scan ? "Mamba-2" : h.state.key_heads > 0 ? "a gated delta rule" : "a short convolution";
  if (recurrent > 0) print_out("  {} in {} layers, with {:.1f} MiB in a state\n", mixer, recurrent, state_bytes / (1 << 20));
  if (windowed > 0) print_out("  {} of {} tokens in {} layers\n", h.chunked ? "chunks" : "a sliding window", h.layer.window, windowed);
  if (h.nextn_layers > 0) print_out("  multi-token prediction (MTP) layers: {}; --mtp guesses with the first\n", h.nextn_layers);
  print_out("  {:.1f} MiB of weights, {:.1f} MiB read per token\n", mib(held), mib(read));
}

/// Prints the special tokens; an unknown vocabulary is not an error here.
void print_special_tokens(const gguf::File& file) {
  try {
    const auto tokenizer = load_tokenizer(file);
    const auto shown = [&](TokenId id) { return fmt::format("{} ({})", tokenizer->text(id), id); };
    std::vector<std::string> ends, gap;
    for (TokenId id = 0; id < tokenizer->size(); ++id) {
      if (tokenizer->ends_generation(id)) ends.push_back(shown(id));
    }
    for (const FimToken which : {FimToken::kPrefix, FimToken::kSuffix, FimToken::kMiddle}) {
      if (tokenizer->fim(which) >= 0) gap.push_back(shown(tokenizer->fim(which)));
    }
    print_out("  end-of-text tokens: {}\n", ends.empty() ? "none" : fmt::format("{}", fmt::join(ends, ", ")));
    if (gap.size() == 3) print_out("  fill-in-the-middle tokens: prefix {}, suffix {}, middle {}\n", gap[0], gap[1], gap[2]);
  } catch (const ModelError& error) {
    print_out("  {}\n", error.what());
  }
}

/// Memory of a rank, or of its device, in a run with default flags.
RankBytes bytes_in_run(const ModelFile& model, LayerRange range, const Shard& shard, std::int64_t context, int threads,
                       bool device = false) {
  const auto tokens = static_cast<std::int32_t>(context);
  const int batch = CacheOptions().batch;
  DecodeOptions decode = decode_options(Strategy::kPipeInfer, {}, batch, 1, tokens, {});
  if (model.h.is_recurrent()) limit_guesses(decode, 1);
  const std::int32_t in_windows = window_cells(model.h, tokens, decode.guess_cells, batch);
  if (device) return device_bytes(model, range, shard, CacheType::kF16, batch, context, in_windows);
  return rank_bytes(model, range, shard, CacheType::kF16, batch, threads, in_windows);
}

/// Prints the memory that a rank with all layers would need here, and its highest possible speed.
void print_estimate(const ModelFile& model, std::int64_t context) {
  const std::vector<int> cpus = assign_cpus(Topology::detect(), 0, 0, 1);
  const LayerRange all{0, model.h.layers};
  const RankBytes bytes = bytes_in_run(model, all, Shard(model.h), context, static_cast<int>(cpus.size()));
  const std::uint64_t needed = bytes.weights + bytes.cache(static_cast<std::uint64_t>(context)) + bytes.buffers,
                      free = available_memory_bytes();
  print_out("\non this machine, with a context of {}\n  {:.1f} MiB of memory, of {:.1f} that are free\n", context, mib(needed), mib(free));
  if (needed > free) {
    print_out("  weights would be read from the disk for every token\n");
    return;
  }
  MachineProbe probe(cpus, cpu::choose_isa(), probe_memory_bytes());
  const double rate = probe.read_bytes_per_s(probe.most_threads());
  print_out("  {:.1f} tokens/s at most, one at a time: {} read {:.1f} GB/s\n",
            rate / static_cast<double>(read_bytes(model.file, model.h, all)), counted(probe.most_threads(), "thread"), rate / 1e9);
}

/// A plan with the layers that devices compute alone. Only `-ngl auto` and --units look at the devices of this machine.
wire::Start layers_on_devices(const MachineUnits& machine, const ModelFile& model, const MachineDraft& draft,
                              const wire::PipelinePlan& plan) {
  const int batch = CacheOptions().batch, asked = machine.gpu_layers.value_or(0);
  if (asked == wire::kLayersThatFit || !machine.units.empty()) return plan_machine(machine, model, draft, plan, CacheType::kF16, batch);
  wire::Start start;
  start.pipelines = {plan}, start.batch = batch;
  for (const LayerRange& layers : plan.layers)
    start.pipelines.front().first_layers.push_back(static_cast<std::int32_t>(std::min<std::int64_t>(asked, layers.count())));
  return start;
}

/// Prints what each rank of a plan holds, with its device's part.
void print_parts(const ModelFile& model, const wire::PipelinePlan& plan, std::int64_t context) {
  for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
    const LayerRange range = plan.layers[r];
    const GroupMember member = plan.member(r);
    const Shard shard(model.h, member.shares, member.member);
    const auto print = [&](const std::string& who, LayerRange layers, const RankBytes& bytes) {
      const std::string which = layers.count() > 0 ? fmt::format("{:>3}-{:<3}", layers.begin, layers.end - 1) : "   -   ";
      print_out("  {:<8} layers {} weights {:>9.1f} MiB  cache {:>8.1f} MiB\n", who, which, mib(bytes.weights),
                mib(bytes.cache(static_cast<std::uint64_t>(context))));
    };
    const RankBytes all = bytes_in_run(model, range, shard, context, 1);
    print(fmt::format("rank {}", r), range, all);
    const LayerRange on_gpu{range.begin, range.begin + plan.first_layers[r]};
    if (on_gpu.count() == 0) continue;
    print("  GPU", on_gpu, bytes_in_run(model, on_gpu, shard, context, 1, true));
    RankBytes cores = bytes_in_run(model, {on_gpu.end, range.end}, shard, context, 1);
    cores.weights = all.weights - std::min(all.weights, weights_that_move(model, on_gpu, shard));  // the embedding stays on the host
    print("  cores", {on_gpu.end, range.end}, cores);
  }
}

void print_draft(const RankBytes& bytes, const MachineUnits& machine, std::int64_t context) {
  print_out("  draft                  weights {:>9.1f} MiB  cache {:>8.1f} MiB  on {}\n", mib(bytes.weights),
            mib(bytes.cache(static_cast<std::uint64_t>(context))),
            machine.draft_units.empty() ? "the cores" : names_of(machine.draft_units));
}

/// Throws UsageError if the layers cannot be split like this. What is wrong with the model itself is said after its metadata.
void require_split(const gguf::File& file, const ModelPlace& place) {
  if (file.tensors().empty()) return;
  try {
    split_layers(file, Hyperparameters::read(file), place.stage_shares(), place.stages());
  } catch (const ModelError&) {
  }
}

/// --tree: a tree of guesses and its mask.
void inspect_tree(const InspectOptions& options) {
  check_outputs({{options.json_file, OutputKind::kJson}}, {options.tree_file});
  constexpr int kGuesses = 63;
  const bool given = options.draft > 0;
  const std::vector<RunTree> trees = read_run_trees(options.tree_file, given ? options.draft : kGuesses, given);
  const auto shown = options.run > 0 ? std::ranges::find(trees, options.run, &RunTree::run)
                                     : std::ranges::max_element(trees, {}, [](const RunTree& one) { return one.tree.width(); });
  if (shown == trees.end())
    throw UsageError(fmt::format("--run: {} has no run {} with guesses; its first is {}", options.tree_file, options.run, trees[0].run));
  print_out("{}", to_picture(*shown, trees));
  write_outputs({{options.json_file, [&] { return to_json(*shown); }}});
}

/// --datastore: adds the text to that file, or each of the texts of a list of prompts.
void keep_texts(const TokenizeOptions& options, const std::string& text, const Tokenizer& tokenizer) {
  const bool listed = options.text.file.ends_with(".jsonl");
  if (!listed) warn_unless_utf8(text, options.text);
  if (!listed) warn_of_prompt_list(text, options.text);
  std::vector<std::vector<TokenId>> texts;
  std::size_t tokens = 0;
  for (const std::string& one : listed ? read_prompt_list(text, options.text.file) : std::vector{text}) {
    texts.push_back(tokenizer.encode(one, options.add_bos, options.parse_special));
    tokens += texts.back().size();
  }
  const auto all = SuffixFile(options.datastore, vocabulary(tokenizer), "--datastore").add(texts);
  print_error("{}: {} of {} added; {} of {} in all\n", options.datastore, counted(std::ssize(texts), "text"),
              counted(static_cast<std::int64_t>(tokens), "token"), counted(static_cast<std::int64_t>(all.texts), "text"),
              counted(static_cast<std::int64_t>(all.tokens), "token"));
}

}  // namespace

void tokenize_command(const TokenizeOptions& options) {
  check_store(options.datastore, "--datastore");
  check_outputs({{options.datastore, OutputKind::kSuffixStore}}, {options.model, options.text.file});
  const gguf::File file = gguf::File::open(options.model);
  const auto tokenizer = load_tokenizer(file, options.text.pre_tokenizer);
  if (!options.text.prompt && options.text.file.empty()) throw UsageError("no text given; write one with -p TEXT or -f FILE");
  const std::string text = options.text.prompt ? *options.text.prompt : read_text(options.text.file);
  if (!options.datastore.empty()) return keep_texts(options, text, *tokenizer);
  warn_unless_utf8(text, options.text);
  const std::vector<TokenId> ids = tokenizer->encode(text, options.add_bos, options.parse_special);
  if (options.add_bos) warn_of_doubled_bos(*tokenizer, ids);
  if (options.ids) {
    print_out("[{}]\n", fmt::join(ids, ", "));
    return;
  }
  for (const TokenId id : ids) print_out("{:>8}  {}\n", id, tokenizer->text(id));
}

void inspect_command(const InspectOptions& options, int ranks) {
  if (!options.tree_file.empty()) return inspect_tree(options);
  gguf::File file = gguf::File::open(options.model);
  const std::vector<ModelShares> models = parse_layer_split(options.layer_split.text);
  if (models.size() > 1) throw UsageError("inspect shows one model; leave out the shares after the slash");
  const int parts = models.empty() ? ranks : static_cast<int>(models[0].shares.size());
  const ModelPlace place = make_layout(options.layer_split.text, parts, 0, false).front();
  require_split(file, place);
  print_out("{}: GGUF version {}, {} tensors\n\nmetadata\n", file.name(), file.version(), file.tensors().size());
  for (const auto& [key, value] : file.metadata()) print_out("  {:<48} {}\n", key, brief(value));

  std::map<std::string_view, std::pair<std::size_t, std::size_t>> by_type;
  std::size_t total = 0;
  for (const gguf::Tensor& tensor : file.tensors()) {
    auto& [count, bytes] = by_type[traits(tensor.type).name];
    ++count;
    bytes += tensor.bytes;
    total += tensor.bytes;
  }
  print_out("\ntypes\n");
  for (const auto& [name, sum] : by_type) print_out("  {:<8} {:>5} tensors {:>10.1f} MiB\n", name, sum.first, mib(sum.second));
  print_out("  {:<8} {:>5}         {:>10.1f} MiB\n", "all", file.tensors().size(), mib(total));
  if (options.tensors) {
    print_out("\ntensors\n");
    for (const gguf::Tensor& t : file.tensors())
      print_out("  {:<40} {:<7} {:>12} bytes  {}\n", t.name, traits(t.type).name, t.bytes, fmt::join(t.shape, " x "));
  }
  if (file.tensors().empty()) return;

  const Hyperparameters h = Hyperparameters::read(file);
  require_all_read(file, h);
  print_model(file, h);
  print_special_tokens(file);
  wire::PipelinePlan plan;
  plan.layers = place.per_rank(split_layers(file, h, place.stage_shares(), place.stages()));
  plan.ranks = place.ranks;
  plan.shares = place.groups.empty() ? std::vector<double>{} : place.shares;
  const std::int64_t context = options.context ? options.context : std::min<std::int64_t>(h.context, kDefaultContext);
  plan.cells = static_cast<std::int32_t>(context);
  const ModelFile model{std::move(file), h};
  const MachineDraft draft = open_draft(options.machine, model, CacheType::kF16);
  const wire::Start parts_of_all = layers_on_devices(options.machine, model, draft, plan);
  print_out("\nsplit over {} rank{} with a context of {}\n", parts, parts == 1 ? "" : "s", context);
  print_parts(model, parts_of_all.pipelines.front(), context);
  if (draft.guesses()) print_draft(draft_bytes(model, draft, parts_of_all), options.machine, context);
  print_estimate(model, context);
}

}  // namespace yamata

// yamata quantize: converts a model file to another format.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>

#include "launch/commands/commands.hpp"
#include "launch/program/input/interrupts.hpp"
#include "launch/program/output/output_file.hpp"
#include "launch/program/output/progress_bar.hpp"
#include "launch/program/output/standard_output.hpp"
#include "mpi/cluster/head.hpp"
#include "node/lost_pages.hpp"
#include "node/mib.hpp"
#include "node/topology.hpp"
#include "src/model/unread_tensors.hpp"
#include "src/quantize/quantize.hpp"

namespace yamata {
namespace {

/// Writes the planned file; on a terminal, with a progress bar.
void write_planned(const gguf::File& file, const quantize::Plan& plan, ThreadPool& pool, const std::string& path) {
  NewFile out(path);
  ProgressBar bar("quantizing");
  const bool terminal = isatty(STDERR_FILENO) != 0;
  try {
    quantize::write_quantized(
        file, plan, pool, [&](std::span<const std::byte> bytes) { out.append(bytes); },
        [&](double share) {
          if (g_interrupted) throw Interrupted{};
          require_pages();
          if (terminal) bar(share);
        });
  } catch (...) {
    bar.clear();
    throw;
  }
  require_pages();
  out.finish();
}

}  // namespace

void quantize_command(const QuantizeOptions& o) {
  const gguf::File file = gguf::File::open(o.source);
  require_all_read(file, Hyperparameters::read(file));
  check_writable({o.destination, OutputKind::kGguf}, {o.source, o.imatrix});
  quantize::Imatrix imatrix;
  if (!o.imatrix.empty()) imatrix = quantize::Imatrix::open(o.imatrix);
  const quantize::Plan plan = quantize::make_plan(file, {o.mix, o.allow_requantize, o.imatrix.empty() ? nullptr : &imatrix});
  for (const std::string& note : plan.notes) print_error("yamata: note: {}\n", note);

  ThreadPool pool(assign_cpus(Topology::detect(), o.threads, 0, 1));
  const auto begin = std::chrono::steady_clock::now();
  write_planned(file, plan, pool, o.destination);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  print_error("{}: {} tensors, {:.1f} MiB -> {:.1f} MiB ({}) in {:.1f} s\n", o.destination, plan.tensors.size(), mib(plan.bytes_before),
              mib(plan.bytes_after), quantize::kind_name(o.mix.kind), seconds);
}

}  // namespace yamata

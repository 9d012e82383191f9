#pragma once
// Parses --units, --draft-units, -ngl and --offload.
#include <string>
#include <vector>

#include "launch/program/options/given_flags.hpp"
#include "launch/program/options/options.hpp"
#include "launch/program/planning/units.hpp"

namespace yamata {

/// "cpu:0-3+cpu:4-7" or "cpu+cuda:0", each unit optionally with "=SHARE"; empty for "auto". Throws UsageError for anything else, for cores
/// or devices in two units, and for shares whose sum is not 1; the message names `flag`.
std::vector<UnitSpec> parse_units(const std::string& text, const char* flag = "--units");
/// If `wanted` by the flag: weights are copied to a device for every run. Throws UsageError, which names the flag, if -ngl does not say how
/// many layers stay there, or if weights are not packed.
void set_offload(ComputeOptions& compute, const std::string& flag, bool wanted);
/// -ngl for these units: a number of layers, or wire::kLayersThatFit for "auto". Throws UsageError if it is neither, and if the units are
/// not cores and one device without a share.
int parse_gpu_layers(const std::string& text, const std::vector<UnitSpec>& specs);
/// The same as a text for users.
std::string gpu_layers_text(int layers);
inline constexpr char kAttentionCutHelp[] =
    "How units divide attention: by heads; dynamic: from 257 tokens on, the GPU (or the first unit) has the front of the cache, the others "
    "the "
    "rest and the guesses, and the boundary follows the shares, in steps of 256 tokens; static: the boundary is the end of the context "
    "(Ghidorah)";
/// --attention-cut. Throws UsageError if it is no way to divide attention, or if there is nothing to divide.
AttentionCut parse_attention_cut(const std::string& text, const std::vector<UnitSpec>& specs);
/// Checks -t with these units. Throws UsageError if no unit uses a number of threads.
void require_idle_threads(const std::vector<UnitSpec>& specs);
/// --units; then -t is checked with them.
std::vector<UnitSpec> read_units(const GivenFlags& r);

}  // namespace yamata

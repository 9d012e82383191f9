#pragma once
// Divides a list of operations into one list per unit of a machine. The units compute it together, in the same memory.
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "node/compute_unit.hpp"
#include "node/float_buffer.hpp"
#include "node/op.hpp"
#include "node/unit_barrier.hpp"
#include "node/units/cut.hpp"
#include "node/units/packed_layouts.hpp"
#include "node/units/unit_access.hpp"
#include "node/units/unit_shares.hpp"

namespace yamata {

/// How the units divide attention.
enum class AttentionCut {
  kHeads,    ///< by heads; in a long context with too few heads, by segments of the cache
  kDynamic,  ///< from two segments on, one unit has the first segments of the cache, and the others have the rest and the tree; the shares
             ///< say where the boundary is (Ghidorah, dynamic partitioning)
  kStatic,   ///< the same, with the boundary at the last edge of a segment before the run's first token
};

inline constexpr std::array<std::string_view, 3> kAttentionCutNames{"heads", "dynamic", "static"};

/// One unit computes each output as a whole, so no bit depends on the division. Each operation has a function that says how to divide it;
/// without one, the first unit computes it between two synchronizations. The units synchronize (BarrierOp) where one would read or
/// overwrite what another has written, or may still be reading, since the last synchronization. The units prepare the input of products
/// together, in one of these synchronizations: each unit quantizes the columns that it has written itself.
class OpCutter {
 public:
  /// `memory`: a unit whose memory all units can access. All units outlive this.
  OpCutter(std::span<const std::unique_ptr<ComputeUnit>> units, ComputeUnit& memory, UnitBarrier& barrier, UnitShares& shares);

  /// `dense`: the unit that has the first segments. The default is kHeads.
  void divide_attention(AttentionCut cut, std::size_t dense);

  /// Divides the list, which must outlive the run of the resulting lists, and prepares the synchronizations. Throws std::bad_alloc.
  void cut(std::span<const Op> ops);
  /// See SplitUnit.
  void divide_attention_apart() { apart_ = true; }
  std::span<const Op> list(std::size_t unit) const { return lists_[unit]; }
  /// Whether the list has exchanges with other ranks.
  bool in_group() const { return in_group_; }
  /// The number of synchronizations in the lists.
  std::size_t barriers() const { return labels_.size(); }
  /// How many operations of the whole list are completed if a unit has completed this many of its own.
  std::size_t ended(std::size_t unit, std::size_t of_its_own) const;
  /// The kind of work before each synchronization, as its number in the shares.
  std::span<const int> labels() const { return labels_; }

  /// Bytes of a matrix packed for all units, with each layout counted once.
  std::size_t packed_bytes(const Matrix& matrix) const { return layouts_.bytes(matrix); }

 private:
  /// Heads of a layer, divided in the same way wherever they are used.
  struct Heads {
    const StoreOp* store;
    Cut queries, keys;
    bool whole_groups;  ///< a key/value head and its query heads are on one unit
  };

  void cut_op(const EmbedOp& op);
  void cut_op(const LinearOp& op);
  void cut_op(const StoreOp& op);
  void cut_op(const AttentionOp& op);
  void cut_op(const AttentionPartOp& op);
  void cut_op(const MergeAttentionOp& op);
  void cut_op(const GatherOp& op);
  void cut_op(const AllGatherOp& op);
  void cut_op(const ReadOp& op);
  void cut_op(const PackOp& op);
  void cut_op(const NormOp& op);
  void cut_op(const ResizeOp& op);
  void cut_op(const AddOp& op);
  void cut_op(const HighestOp& op);
  void cut_op(const StateInputsOp& op);
  void cut_op(const DeltaRuleOp& op);
  void cut_op(const ScanOp& op);
  template <class AnyRule>
  void cut_rule(const AnyRule& op);
  void cut_op(const GatedConvolutionOp& op);
  void cut_op(const HeadGateOp& op);
  void cut_op(const UngateOp& op);
  void cut_op(const PickOp& op);
  template <class AnyOp>
  void cut_op(const AnyOp& op) {
    cut_alone(op);
  }
  void cut_alone(const Op& op) {
    add_barrier();
    lists_[0].push_back(op);
    add_barrier();
  }

  using PartCuts = std::array<Cut, LinearOp::kMostParts>;
  Cut cut_of_part(const LinearOp::Part& part, const Heads* heads, std::span<const double> shares) const;
  Cut cut_as_written(std::initializer_list<const float*> where, std::int64_t columns) const;
  Cut heads_as_written(const float* x, std::int64_t heads, std::int64_t dim) const;
  template <class AnyOp>
  void add_by_heads(const AnyOp& op, const Cut& heads);
  int label_of(const LinearOp& op);
  int label_of(const AttentionOp& op);
  void begin_labelled();
  void labelled(int label, const Cut& cut, std::int64_t count);
  void labelled(int label, std::span<const double> fractions);
  const AttentionOp* attention_of(const float* q) const;
  const Heads* heads_of(const LinearOp& op, std::span<const double> shares);
  Heads heads_of(const StoreOp& store, std::span<const double> shares) const;
  std::int64_t segments_of(const AttentionOp& op, std::span<const double> shares) const;
  /// Per unit, its segments.
  using Segments = std::array<OpRange, kMaxUnits>;
  Segments cut_of_segments(std::int64_t count, std::span<const double> shares, std::optional<std::int64_t> boundary) const;

  /// Records the accesses of the next operation, after a synchronization if one is needed.
  void access(std::span<const UnitAccess> accesses);
  void add_barrier();
  void after_barrier();
  Cut input_cut(const LinearOp& op, std::int64_t stride, std::int64_t width, std::span<const double> shares);
  void make_together(const LinearOp& op, const PartCuts& outputs, std::span<const double> shares);
  void make_each(const LinearOp& op, const PartCuts& outputs, std::vector<UnitAccess>& accesses);
  LinearOp part_of(const LinearOp& op, std::size_t unit, const PartCuts& outputs);
  void cut_input_alone(const LinearOp& op);
  void cut_heads(const AttentionOp& op, const Cut& heads, const UnitAccess& cells);
  void wait_for_picks(const AttentionOp& op);
  void cut_segments(const AttentionOp& op, std::int64_t segments, int label);
  void cut_parts(const AttentionPartOp& op, const Segments& segments);
  void reserve();
  GroupExchange& units_of(const SharedColumns& share, std::size_t unit);
  std::span<const std::int64_t> lone_cuts(std::int64_t cols);

  const std::span<const std::unique_ptr<ComputeUnit>> units_;
  UnitBarrier& barrier_;
  UnitShares& shares_;
  MemberUnits member_;
  PackedLayouts layouts_;
  AttentionCut attention_cut_ = AttentionCut::kHeads;
  std::size_t dense_unit_ = 0;

  std::span<const Op> ops_;
  std::size_t at_ = 0;  // of the operation that is being divided
  std::vector<std::vector<Op>> lists_;
  std::vector<std::vector<std::size_t>> ends_;  // [unit][operation]: its own operations up to the end of this one
  std::vector<int> labels_;                     // [barrier]: label of the work before it
  std::optional<int> label_;                    // label of the work since the last synchronization
  UnitAccesses accesses_;                       // since the last synchronization
  std::optional<Heads> heads_;
  std::size_t slice_bytes_ = 0;
  bool in_group_ = false, apart_ = false;
  std::deque<std::array<std::int64_t, 2>> lone_cuts_;  // for a machine that is in no group
  std::vector<FloatBuffer> inputs_;                    // [unit]: inputs in floats
  FloatBuffer partials_;
};

}  // namespace yamata

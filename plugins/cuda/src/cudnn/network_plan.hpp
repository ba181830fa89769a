// NetworkPlan: what runs as one in a training step, its cuDNN plans, and all memory in one arena.
#pragma once

#include <array>     // inputs
#include <cstddef>   // size_t
#include <cstdint>   // int64_t
#include <optional>  // blocks of pixels
#include <span>      // units
#include <vector>    // blocks

#include <gx/core/element.hpp>       // ElementType
#include <gx/model/graph.hpp>        // Graph
#include <gx/model/memory_plan.hpp>  // MemoryBlock

#include "../network_kernels.hpp"
#include "../space_to_depth.hpp"
#include "dnn.hpp"

namespace gx::cuda::detail {

/// A block of the arena, by number.
enum class Block : int { none = -1 };

/// How a unit hands the gradient of an input on.
struct GradientRoute {
    enum class Kind : unsigned char {
        none,    ///< no one needs it
        shared,  ///< it is the gradient of the output, in the same memory
        store,   ///< the first to write it
        add,     ///< to what units behind stored
        keep     ///< beside that, for a batch norm whose backward reads both
    };
    Kind kind = Kind::none;
    Block to = Block::none;      ///< the gradient
    Block addend = Block::none;  ///< add, keep: the unit's own
    /// Where the unit's kernels store.
    [[nodiscard]] Block stored() const { return addend == Block::none ? to : addend; }
};

/// An operation, or a batch norm with the addition and the ReLU behind it.
struct Unit {
    const Op* op = nullptr;             ///< the batch norm, where there are several
    bool adds = false, relu = false;    ///< what follows the batch norm
    const Op* residual_norm = nullptr;  ///< a batch norm that is added, applied by this unit
    bool norms_only = false;            ///< another unit applies it
    int last = -1;                      ///< index of the operation whose output it writes
    std::array<int, 2> inputs{-1, -1};  ///< tensors; of a batch norm: x, and what is added
    int output = -1;
    int joined = -1;  ///< concat: the tensor that it writes a part of: its own, or a later concat's
    std::array<int, 2> first_channels{};  ///< concat: where those of its inputs begin in it

    /// Of the input and of the convolution that alone reads it: it lies in blocks of pixels.
    std::optional<SpaceToDepth> blocks{};
    Block block_weight = Block::none;  ///< of the convolution, in E

    DnnLayer dnn{};
    Block notes = Block::none;  ///< norms of channels, places of maxima, losses of images
    Block residual_norms = Block::none;
    Block mask = Block::none;  ///< of the ReLU behind an addition
    /// Of a convolution's output and of its squares, by channel, where it leaves them to the batch
    /// norm behind it; of the batch norm, the same.
    Block sums = Block::none;
    Block workspace = Block::none, backward_workspace = Block::none;
    Block weight_gradient = Block::none;  ///< in E, until it is decoded
    Block output_gradient = Block::none;  ///< none: backward does not come here
    Block addend = Block::none;           ///< of a batch norm: what is added to it
    std::array<GradientRoute, 2> gradients{};
    /// All gradients from this parameter to the last are final after the unit's backward.
    std::size_t final_from = 0;
};

/// Joins operations, plans the rest by cuDNN, and places every tensor once. A concat that another
/// alone reads has no memory of its own: what it joins goes to its channels of the last output.
///
/// Time is MemoryPlan's: a unit runs forward at the index i of its last operation and backward at
/// 2 n - 1 - i. A block lives from its first use to its last, so that workspaces and temporary
/// gradients share memory with activations.
///
/// Errors: those of Dnn.
class NetworkPlan {
public:
    NetworkPlan(const Graph& graph, Dnn& dnn, int batch, ElementType compute);

    /// Of blocks, as of what CUDA allocates.
    static constexpr std::int64_t alignment_bytes = 256;

    [[nodiscard]] std::span<const Unit> units() const { return units_; }
    [[nodiscard]] Block activation(int tensor) const {
        return activations_[static_cast<std::size_t>(tensor)];
    }
    /// Bytes of the arena.
    [[nodiscard]] std::int64_t bytes() const { return bytes_; }
    [[nodiscard]] const MemoryBlock& memory(Block b) const {
        return blocks_[static_cast<std::size_t>(b)];
    }
    /// Whether the activation is whole when the forward has ended.
    [[nodiscard]] bool survives(int tensor) const { return survives(activation(tensor)); }
    /// Whether what the unit hands to its inputs is the gradient of its output as it is.
    [[nodiscard]] bool passes_gradient(const Unit& unit) const;
    /// Whether a flatten leaves the order of elements in memory as it is.
    [[nodiscard]] bool keeps_order(const Op& flatten) const;
    /// An activation that survives, or what a batch norm makes of one, and the operation that is to
    /// blame where it is the first that is not finite: the first of those behind the check before.
    struct Check {
        int tensor = -1;
        Block norms = Block::none;
        const Op* blamed = nullptr;
    };
    [[nodiscard]] std::vector<Check> checks() const;
    [[nodiscard]] CheckedActivation checked(const Check& check) const;

private:
    void join();
    void join_channels(Unit& unit, const Op* reader);
    void take_blocks(Dnn& dnn);
    void plan_forward(Unit& unit, Dnn& dnn);
    void plan_backward(Unit& unit);
    void plan_workspaces(Unit& unit, int forward, int backward);
    [[nodiscard]] GradientRoute route(const Unit& unit, std::size_t input, int time);
    [[nodiscard]] GradientRoute* last_added(int tensor);
    void set_final_parameters();

    [[nodiscard]] const Op& blamed(const Unit& unit) const;
    /// Whether a batch norm can be applied again when the forward has ended.
    [[nodiscard]] bool is_repeatable(const Unit& unit) const;
    [[nodiscard]] bool is_checked(int tensor) const;
    [[nodiscard]] const Unit& writer(int tensor) const;
    [[nodiscard]] bool survives(Block block) const {
        return block != Block::none &&
               memory(block).last >= static_cast<int>(graph_->ops.size()) - 1;
    }

    Block add(std::int64_t bytes, int time);
    void use(Block block, int time);
    /// Whether a batch norm reads the tensor.
    [[nodiscard]] bool is_normalised(int tensor) const;
    /// Whether the tensor is a part of a concat's output, where it is.
    [[nodiscard]] bool is_part(int tensor) const {
        return joined_[static_cast<std::size_t>(tensor)] != tensor;
    }
    /// Elements of an image's tensor as it is stored.
    [[nodiscard]] std::int64_t elements(int tensor) const;
    [[nodiscard]] std::int64_t tensor_bytes(int tensor) const;
    [[nodiscard]] int readers(int tensor) const {
        return readers_[static_cast<std::size_t>(tensor)];
    }
    [[nodiscard]] bool has_gradient(int tensor) const {
        return tensor >= 0 && has_gradient_[static_cast<std::size_t>(tensor)] != 0;
    }

    const Graph* graph_;
    int batch_;
    std::int64_t element_bytes_;
    std::vector<std::uint8_t> has_gradient_;
    std::vector<int> readers_;
    std::vector<int> joined_,
        first_channel_;  ///< of each tensor: Unit::joined, and its begin there
    std::optional<SpaceToDepth> input_blocks_{};
    std::vector<Unit> units_{};
    std::vector<MemoryBlock> blocks_{};
    std::vector<Block> activations_, gradients_;
    std::int64_t bytes_ = 0;
};

}  // namespace gx::cuda::detail

// Tuning: options of the oneDNN device; Counters: its statistics; MemoryUse: its memory.
#pragma once

#include <cstdint>  // int64_t

namespace gx::onednn {

/// How images lie in memory: blocks of channels together, or all channels of a pixel.
enum class ChannelOrder : unsigned char { automatic, blocked, last };

/// Options of the device, beside what gx::DeviceOptions has.
/// Order: lanes, winograd and chunk_bytes change the order of sums, hence the last bits; threads
///        does not.
struct Tuning {
    int lanes = 0;    ///< shares of a batch that may run at once; 0: one for each core, at most 16
    int threads = 0;  ///< that run the lanes; 0: the cores, divided among the owners of devices
    bool winograd = true;  ///< 3x3 convolutions of stride 1 by F(4x4, 3x3) where that is faster
    /// Of activations that a lane takes through a segment at once; 0: what suits the CPU's maker.
    std::int64_t chunk_bytes = 0;
    /// In bf16; automatic: channels last on CPUs with AMX, whose kernels need them, else blocked.
    /// Blocked anyway if the channels of a convolution with groups leave a block unfilled.
    ChannelOrder bf16_channels = ChannelOrder::automatic;
};

/// Counts since construction.
struct Counters {
    std::int64_t plans = 0;                ///< batch counts planned for
    std::int64_t steps = 0;                ///< backward runs
    std::int64_t allocations_in_step = 0;  ///< blocks of memory asked for by runs of planned counts
    std::int64_t activation_reorders_in_step = 0;  ///< passes that only change a layout
    std::int64_t weight_repacks = 0;  ///< weights copied to a second layout, once an update or step
    /// In fp16: gradients of activations that were not 0 before they were stored, and those of
    /// them that were stored as 0, as they are below half of the least number, 2^-25.
    std::int64_t gradients_stored = 0, gradients_flushed = 0;
};

/// Bytes that a device holds. The first four lie in the arena when it is fullest.
struct MemoryUse {
    std::int64_t activations = 0;           ///< of the forward pass, most for the backward pass
    std::int64_t activations_again = 0;     ///< worked out again in the backward pass
    std::int64_t activation_gradients = 0;  ///< in the backward pass
    std::int64_t arena_scratch = 0;         ///< of kernels that use more than 1 MiB a lane
    std::int64_t arena_gaps = 0;            ///< of the arena, what is free even then
    std::int64_t parameters = 0;
    std::int64_t weight_copies = 0;   ///< in the layouts and types of kernels that read no others
    std::int64_t lane_gradients = 0;  ///< of parameters, of all lanes but the first
    std::int64_t scratch = 0;         ///< of other kernels while they run, of all lanes
};

}  // namespace gx::onednn

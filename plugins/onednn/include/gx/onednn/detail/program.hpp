// program: one training step as steps in segments over buffers, each lane by chunks.
#pragma once

#include <algorithm>  // min, max
#include <cstddef>    // byte
#include <cstdint>    // int64_t
#include <span>       // gradients

#include <gx/core/device.hpp>               // Batch, Mode
#include <gx/core/trivial_vector.hpp>       // steps of a segment
#include <gx/onednn/detail/memory.hpp>      // Interval
#include <gx/onednn/detail/numbers.hpp>     // bytes_of
#include <gx/onednn/detail/owned_list.hpp>  // OwnedList
#include <gx/onednn/tuning.hpp>             // Counters

namespace gx::onednn::detail {

/// What a buffer holds: of the forward pass; the same, worked out again; a gradient of such.
enum class BufferUse : unsigned char { activation, again, gradient };

/// A tensor, a gradient or a mask of the images of a batch. One that a single segment uses, chunk
/// by chunk, has room for a chunk of each lane alone, which then stays in the core's cache.
struct Buffer {
    float* data = nullptr;
    std::int64_t image_floats = 0;  ///< numbers of an image, in whichever type they are
    int first = -1, last = -1;      ///< segments that use it
    int counted = -1;               ///< the last segment whose image_bytes has it
    int images = 0;                 ///< that it has room for
    const int* slots = nullptr;     ///< where each image of the batch lies; null: image after image
    ElementType type = ElementType::fp32;
    BufferUse use = BufferUse::activation;

    [[nodiscard]] std::int64_t image_bytes() const { return image_floats * bytes_of(type); }
    [[nodiscard]] std::int64_t bytes() const { return image_bytes() * images; }
    [[nodiscard]] int slot(int n) const { return slots != nullptr ? slots[n] : n; }
    /// Of an fp32 buffer.
    [[nodiscard]] float* image(int n) const { return data + slot(n) * image_floats; }
    /// E: float or Bf16, as `type` says.
    template <class E>
    [[nodiscard]] E* image_of(int n) const {
        return reinterpret_cast<E*>(data) + slot(n) * image_floats;
    }
    /// Of either type, for oneDNN.
    [[nodiscard]] void* address(int n) const {
        return reinterpret_cast<std::byte*>(data) + slot(n) * image_bytes();
    }
};

/// The images [first, first + count) of a lane. `opens` in the lane's first chunk.
struct Place {
    int lane = 0;
    int first = 0, count = 0;
    bool opens = false;
};

/// Where share `part` of `parts` begins; shares differ by at most one, larger ones first.
[[nodiscard]] constexpr int share_begin(int count, int parts, int part) {
    return part * (count / parts) + std::min(part, count % parts);
}

/// Arguments of one forward or backward run.
struct Run {
    Batch batch{};
    Mode mode = Mode::train;
    float scale = 1;
    std::span<float> gradients{};
    int lanes = 1;
    bool keeps_statistics = true;
    Counters* counters = nullptr;  ///< of the device
    [[nodiscard]] int lane_begin(int lane) const { return share_begin(batch.count, lanes, lane); }
    [[nodiscard]] int lane_count(int lane) const { return lane_begin(lane + 1) - lane_begin(lane); }
};

/// One thing to do with a chunk of images.
class Step {
public:
    Step() = default;
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;
    virtual ~Step() = default;
    /// Plans for chunks of `count` images; may allocate.
    virtual void prepare(int count) { static_cast<void>(count); }
    /// Called once a run, by one thread, before any chunk of the segment.
    virtual void begin(Run&) {}
    virtual void run(const Run&, const Place&) {}
};

/// Bytes of activations of a chunk. More images a call spread the transformation of Winograd's
/// weights and the sums of weight gradients; fewer stay in the cache between steps.
/// Source: Zen 4, 1 MiB of level 2 a core: convolutions of 2 MiB take as long as those of more.
///         Xeon with AMX, 2 MiB, one core, ms an image at 2, 4, 8, 16 and 32 MiB: ResNet-20 of 128
///         images in fp32 1.69, 1.63, 1.58, 1.57, 1.53; ResNet-50 of 8 images 155, 149, 146, 146.
[[nodiscard]] constexpr std::int64_t usual_chunk_bytes(bool intel) {
    return std::int64_t{intel ? 16 : 2} << 20;
}

/// Steps between two barriers of the lanes. A lane takes its images chunk by chunk through all of
/// the steps, so that what one step writes is in the core's cache when the next one reads it.
struct Segment {
    TrivialVector<Step*> steps{};
    bool whole = false;       ///< the lane's images in one chunk
    bool every_lane = false;  ///< runs once in each lane, with images or without
    std::int64_t image_bytes = 0;
    std::size_t watermark = 0;  ///< gradients final from here on, after this segment
    bool moves_watermark = false;
    TrivialVector<int> slots{};        ///< of its own buffers
    std::int64_t scratch_floats = 0;   ///< of a lane, for kernels' large requests
    std::int64_t scratch_offset = -1;  ///< of lane 0's in the arena; -1: there is no room

    [[nodiscard]] bool in_chunks() const { return !whole && !every_lane; }
    /// Images of a chunk at most.
    [[nodiscard]] int most(int images, std::int64_t cache_bytes) const {
        const auto fit = cache_bytes / std::max<std::int64_t>(1, image_bytes);
        return static_cast<int>(std::clamp<std::int64_t>(fit, 1, images));
    }
    [[nodiscard]] int chunks(int images, std::int64_t cache_bytes) const {
        if (every_lane) return 1;
        if (whole || images == 0) return images == 0 ? 0 : 1;
        const int each = most(images, cache_bytes);
        return (images + each - 1) / each;
    }
};

struct Program {
    OwnedList<Buffer> buffers{};
    OwnedList<Step> steps{};
    OwnedList<Segment> forward{}, backward{};
};

}  // namespace gx::onednn::detail

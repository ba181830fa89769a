#include <gx/core/device.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>

#include <vector>

namespace {

using gx::archetype::Device;

// ---- What the types promise ---------------------------------------------------------
static_assert(gx::Device<Device>);
static_assert(gx::explain_device<Device>());
static_assert(!gx::Device<int>);

struct ForwardTellsNothing : Device {
    void forward(const gx::Batch&, gx::Mode);
};
static_assert(!gx::Device<ForwardTellsNothing>);
struct BackwardWithoutWatermark : Device {
    void backward(float, std::span<float>);
};
static_assert(!gx::Device<BackwardWithoutWatermark>);
struct NoBadLayer : Device {
    void first_non_finite() const;
};
static_assert(!gx::Device<NoBadLayer>);
struct HandsOutWritableParameters : Device {
    std::span<float> parameters() const;
};
static_assert(!gx::Device<HandsOutWritableParameters>, "parameters change inside update()");
struct NoCanonical : Device {
    void to_canonical(std::span<const float>, std::span<float>);
};
static_assert(!gx::Device<NoCanonical>, "exporting is const");

// Which elements a device computes in: fp32, unless it says otherwise.
static_assert(gx::computes_in<Device, gx::fp32> && !gx::computes_in<Device, gx::bf16>);
struct ComputesInBf16 : Device {
    template <class E>
    static constexpr bool computes = std::same_as<E, gx::fp32> || std::same_as<E, gx::bf16>;
};
static_assert(gx::computes_in<ComputesInBf16, gx::fp32> &&
              gx::explain_computes<Device, gx::fp32>());
static_assert(gx::computes_in<ComputesInBf16, gx::bf16>);
static_assert(!gx::computes_in<ComputesInBf16, gx::fp16>);
struct ComputesInBf16Only : Device {
    template <class E>
    static constexpr bool computes = std::same_as<E, gx::bf16>;
};
static_assert(!gx::computes_in<ComputesInBf16Only, gx::fp32>);
static_assert(gx::DeviceOptions{}.compute == gx::ElementType::fp32);

// Defaults that other code relies on: an empty batch, a sound report.
static_assert(gx::Batch{}.count == 0 && gx::Batch{}.images.empty());
static_assert(gx::ForwardReport{}.finite && gx::ForwardReport{}.loss_sum == 0);

// ---- The watermark falls, and a device that is one parameter ------------------------------
TEST(Device, GradientsReadyIsCalledFromTheEndDown) {
    std::vector<std::size_t> marks;
    auto note = [&](std::size_t mark) { marks.push_back(mark); };
    const gx::GradientsReady ready = note;
    for (const std::size_t mark : {8u, 3u, 0u}) ready(mark);
    EXPECT_EQ(marks, (std::vector<std::size_t>{8, 3, 0}));
}

}  // namespace

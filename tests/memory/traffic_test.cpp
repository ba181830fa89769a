#include <gx/memory/traffic.hpp>  // first, so the header is seen to stand alone

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/collective/group.hpp>   // Group
#include <gx/core/element.hpp>       // fp16, bf16, fp32
#include <gx/memory/kernels.hpp>     // what is counted
#include <gx/quantized/reducer.hpp>  // kernels of a compressed reducer
#include <gx/top_k/reducer.hpp>      // one that states its traffic

namespace {

using namespace gx;
namespace kernels = gx::kernels;

/// A transport in host memory with a queue of its own, which counts what is launched there.
struct CountingQueue {
    using Memory = HostMemory;
    std::vector<std::int64_t>* bytes;
};
template <DeviceKernel K, class... Arguments>
void launch(CountingQueue queue, const K& kernel, Arguments... arguments) {
    queue.bytes->push_back(traffic_bytes(kernel, arguments...));
    kernel(arguments...);
}
struct Alone : archetype::Transport {
    int rank() const { return 0; }
    int ranks() const { return 1; }
    Placement placement() const { return {1, 1}; }
    CountingQueue queue() { return {&bytes}; }
    std::vector<std::int64_t> bytes{};
};

// ---- What the type promises ---------------------------------------------------------
static_assert(Transport<Alone> && InHostMemory<Alone> && !StreamOrdered<Alone>);
static_assert(std::same_as<decltype(queue_of(std::declval<archetype::Transport&>())), HostQueue>);
static_assert(std::same_as<decltype(queue_of(std::declval<Alone&>())), CountingQueue>);
static_assert(
    std::same_as<decltype(queue_of(std::declval<collective::Group<Alone>&>())), CountingQueue>,
    "a group's kernels run where those of the whole do");

// ---- Cases worked by hand -----------------------------------------------------------
constexpr std::size_t n = 1000;
std::vector<float> floats(n), more(n);
std::vector<std::uint16_t> halves(n), others(n);

TEST(TrafficBytes, CountsWhatVectorKernelsReadAndWrite) {
    const std::span<const float> from(floats);
    const std::span<const std::uint16_t> wire(halves);
    EXPECT_EQ(traffic_bytes(kernels::EncodeScaled<fp16>{}, from, std::span(halves)), (4 + 2) * n);
    EXPECT_EQ(traffic_bytes(kernels::EncodeScaled<fp32>{}, from, std::span(more)), (4 + 4) * n);
    EXPECT_EQ(traffic_bytes(kernels::DecodeScaled<bf16>{}, wire, std::span(more)), (2 + 4) * n);
    EXPECT_EQ(traffic_bytes(kernels::Decode<fp16>{}, wire, std::span(more)), (2 + 4) * n);
    EXPECT_EQ(traffic_bytes(kernels::CopyValues<float>{}, from, std::span(more)), (4 + 4) * n);
    EXPECT_EQ(traffic_bytes(kernels::Fill<float>{1}, std::span(more)), 4 * n);
    // In place: read and written.
    EXPECT_EQ(traffic_bytes(kernels::Scale{0.5f}, std::span(more)), (4 + 4) * n);
    EXPECT_EQ(traffic_bytes(kernels::Accumulate<fp16>{}, wire, std::span(others)), (2 + 2 + 2) * n);
    EXPECT_EQ(traffic_bytes(kernels::DecodeAdd<fp16>{}, wire, std::span(more)), (2 + 4 + 4) * n);
}
TEST(TrafficBytes, CountsWhatCompressionReadsAndWrites) {
    std::vector<std::byte> message(200);
    EXPECT_EQ(traffic_bytes(detail::quantized::Decode<detail::quantized::BlockCodec<8>>{},
                            std::span<const std::byte>(message), std::span(more)),
              200 + 4 * n);
    std::vector<std::uint32_t> order(n);
    std::vector<detail::top_k::Entry> mine(10);
    EXPECT_EQ(traffic_bytes(detail::top_k::Choose{}, 1.0f, std::span<const float>(floats),
                            std::span<const float>(floats), std::span(more), std::span(order),
                            std::span(mine)),
              (4 + 4 + 4) * n + 5 * 4 * n + 10 * (8 + 4));
    EXPECT_EQ(traffic_bytes(detail::top_k::AddUp{2}, 1.0f,
                            std::span<const detail::top_k::Entry>(mine), std::span(more)),
              3 * 4 * n + 10 * (8 + 4 + 4));
}

// ---- A property ---------------------------------------------------------------------
RC_GTEST_PROP(TrafficBytes, GrowsWithTheVectorsAndIsZeroOfNone, ()) {
    const auto count = *rc::gen::inRange<std::size_t>(0, n);
    const auto of = [](std::size_t values) {
        return traffic_bytes(kernels::EncodeScaled<fp16>{2},
                             std::span<const float>(floats).first(values),
                             std::span(halves).first(values));
    };
    RC_ASSERT(of(0) == 0);
    RC_ASSERT(of(count + 1) - of(count) == 6);
}

// ---- A queue of the transport's own ---------------------------------------------------
TEST(QueueOf, IsTheTransportsOwnInAGroupToo) {
    Alone link;
    const collective::Members all({1, 1}, {0});
    collective::Group<Alone> group(link, all);
    launch(queue_of(group), kernels::Fill<float>{3}, std::span(more));
    EXPECT_EQ(link.bytes, std::vector<std::int64_t>{4 * n});
    EXPECT_EQ(more[n - 1], 3.0f) << "and it has run";
}

}  // namespace

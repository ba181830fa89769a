#include <gx/memory/buffer.hpp>  // first, so the header is seen to stand alone

#include <map>
#include <vector>

#include <gtest/gtest.h>

#include <gx/memory/queue.hpp>        // launch
#include <gx/testing/far/memory.hpp>  // FarMemory

namespace {

using namespace gx;
using gx::testing::FarMemory;

/// Host memory under another name, with what is allocated now.
class Counting : public MemoryResource {
public:
    std::byte* allocate(std::size_t bytes, const Label& name) override {
        names.emplace_back(name.view());
        return live.emplace_back(bytes).data();
    }
    void release(std::byte* memory, std::size_t bytes) noexcept override {
        released += static_cast<int>(bytes);
        std::erase_if(live, [&](const auto& m) { return m.data() == memory; });
    }
    const void* memory() const override { return &memory_id<FarMemory>; }
    std::vector<std::vector<std::byte>> live{};
    std::vector<std::string> names{};
    int released = 0;
};

TEST(Buffer, OfTheHostIsZeroAndAligned) {
    Buffer<float> b(nullptr, 5, "five");
    EXPECT_EQ(b.size(), 5u);
    for (const float x : b.view()) EXPECT_EQ(x, 0.0f);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b.view().data()) % 64, 0u);
    EXPECT_EQ(Buffer<float>().view().size(), 0u);
}
TEST(Buffer, OfADeviceIsAllocatedAndReleasedOnce) {
    Counting memory;
    {
        Buffer<float> a(&memory, 3, "a");
        Buffer<double> b(&memory, 2, "b"), none(&memory, 0, "none");
        EXPECT_EQ(memory.names, (std::vector<std::string>{"a", "b"}));
        Buffer<float> moved(std::move(a));
        EXPECT_EQ(memory.released, 0);
        EXPECT_EQ(moved.view<FarMemory>().size(), 3u);
        EXPECT_EQ(none.view<FarMemory>().size(), 0u);
        moved = {};
        EXPECT_EQ(memory.released, 12);
    }
    EXPECT_EQ(memory.released, 28);
    EXPECT_TRUE(memory.live.empty());
}
struct OtherMemory {
    template <class T>
    using View = DeviceView<T, OtherMemory>;
    template <class T>
    using Scalar = DeviceScalar<T, OtherMemory>;
    template <class T>
    static View<T> view(T*, std::size_t) {
        return {};
    }
};
TEST(BufferDeathTest, HasViewsInItsOwnMemoryOnly) {
    Counting memory;
    Buffer<float> far(&memory, 3, "far"), here(nullptr, 3, "here");
    EXPECT_DEATH((void)far.view(), "no view for the host");
    EXPECT_DEATH((void)far.view<OtherMemory>(), "views in its own memory");
    EXPECT_DEATH((void)here.view<FarMemory>(), "views in its own memory");
    EXPECT_DEATH(Buffer<float>(nullptr, -1, "less"), "at least 0 elements");
}

// ---- Kernels on the host --------------------------------------------------------------
struct Add {
    static constexpr std::string_view name = "add";
    float by;
    void operator()(std::span<float> v, int times) const {
        for (float& x : v) x += by * static_cast<float>(times);
    }
};
static_assert(DeviceKernel<Add> && !DeviceKernel<int>);

TEST(Launch, RunsAtOnceOnTheHost) {
    Buffer<float> b(nullptr, 2, "b");
    launch(HostQueue{}, Add{0.5f}, b.view(), 3);
    EXPECT_EQ(b.view()[1], 1.5f);
}

}  // namespace

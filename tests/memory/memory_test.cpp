#include <gx/memory/memory.hpp>  // first, so the header is seen to stand alone

#include <array>

#include <gtest/gtest.h>

#include <gx/testing/far/memory.hpp>  // FarMemory: a memory that is not the host's

namespace {

using namespace gx;
using gx::testing::FarMemory;
using View = ViewIn<float, FarMemory>;
using Read = ViewIn<const float, FarMemory>;

// ---- What the types promise -----------------------------------------------------------
static_assert(std::same_as<ViewIn<float, HostMemory>, std::span<float>>);
static_assert(std::same_as<ScalarIn<float, HostMemory>, float>);
static_assert(std::same_as<memory_of<int>, HostMemory> && InHostMemory<int>);
static_assert(std::same_as<memory_of<View>, FarMemory>);
static_assert(std::convertible_to<View, Read> && !std::convertible_to<Read, View>);
template <class V>
concept Dereferenceable =
    requires(V v) { v[0]; } || requires(V v) { *v.begin(); } || requires(V v) { v.data(); };
static_assert(Dereferenceable<std::span<float>> && !Dereferenceable<View>);
static_assert(!std::convertible_to<View, std::span<float>> &&
              !std::convertible_to<std::span<float>, View>);

// ---- Cutting, by the addresses that FarMemory shows -------------------------------------
std::array<float, 10> numbers;
const View all = FarMemory::view(numbers.data(), numbers.size());

TEST(DeviceView, IsCutAsASpanIs) {
    const std::span<float> same = numbers;
    EXPECT_EQ(all.size(), 10u);
    EXPECT_EQ(all.size_bytes(), 40u);
    EXPECT_FALSE(all.empty());
    EXPECT_TRUE(View().empty());
    for (std::size_t first = 0; first <= 10; ++first)
        for (std::size_t count = 0; first + count <= 10; ++count) {
            const auto seen = FarMemory::seen(all.subspan(first, count));
            EXPECT_EQ(seen.data(), std::as_bytes(same.subspan(first, count)).data());
            EXPECT_EQ(seen.size(), 4 * count);
        }
    EXPECT_EQ(all.subspan(4), all.subspan(4, 6));
    EXPECT_EQ(all.first(3), all.subspan(0, 3));
    EXPECT_EQ(all.last(3), all.subspan(7, 3));
}
TEST(DeviceView, ComparesPlaces) {
    EXPECT_TRUE(same_place(all, all.first(2)));
    EXPECT_FALSE(same_place(all, all.subspan(1)));
    const std::span<float> here = numbers;
    EXPECT_TRUE(same_place(here, here.first(1)));
}
TEST(DeviceView, ShowsItsBytes) {
    EXPECT_EQ(FarMemory::seen(bytes_of(all)).size(), 40u);
    EXPECT_EQ(FarMemory::seen(writable_bytes_of(all.subspan(1))).data(),
              FarMemory::seen(all.subspan(1)).data());
    EXPECT_EQ(bytes_of(std::span<float>(numbers)).size(), 40u);
}
TEST(DeviceView, NamesAMember) {
    struct Pair {
        float a;
        int b;
    };
    std::array<Pair, 2> pairs{};
    const auto view = FarMemory::view(pairs.data(), 2);
    EXPECT_EQ(FarMemory::seen(view.member(&Pair::b)).data(),
              reinterpret_cast<const std::byte*>(&pairs[0].b));
}
TEST(DeviceViewDeathTest, HasNoPartsOutside) {
    EXPECT_DEATH((void)all.subspan(8, 3), "a part lies inside of its view");
    EXPECT_DEATH((void)all.subspan(11), "a part lies inside of its view");
    EXPECT_DEATH((void)all.last(11), "a part lies inside of its view");
}

}  // namespace

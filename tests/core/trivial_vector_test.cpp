#include <gx/core/trivial_vector.hpp>  // first, so the header is seen to stand alone

#include <new>      // bad_alloc
#include <span>     // a view
#include <utility>  // move
#include <vector>   // what it is compared with

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace {

struct Pair {
    int a = 7;
    double b = 0.5;
    friend bool operator==(const Pair&, const Pair&) = default;
};
using Pairs = gx::TrivialVector<Pair>;

template <class T>
std::vector<T> values(const gx::TrivialVector<T>& v) {
    return {v.begin(), v.end()};
}

// ---- What the type promises ---------------------------------------------------------
static_assert(std::is_nothrow_move_constructible_v<Pairs> && std::is_copy_assignable_v<Pairs>);
static_assert(std::is_convertible_v<Pairs&, std::span<Pair>>);

// ---- Cases worked by hand -----------------------------------------------------------
TEST(TrivialVector, ValueInitialisesWhatResizeAdds) {
    Pairs pairs(2);
    pairs[0].a = 1;
    pairs.resize(3);
    EXPECT_EQ(values(pairs), (std::vector<Pair>{{1, 0.5}, {7, 0.5}, {7, 0.5}}));
}
TEST(TrivialVector, TakesItsOwnElements) {
    gx::TrivialVector<int> v{1, 2, 3};
    for (int i = 0; i < 100; ++i) v.push_back(v.front());  // grows while it reads
    v.insert(v.begin(), v.back());
    v.resize(300, v[2]);
    EXPECT_EQ(v[0], 1);
    EXPECT_EQ(v[299], 2);
    v.assign(2, v[2]);
    EXPECT_EQ(values(v), (std::vector<int>{2, 2}));
}
TEST(TrivialVector, CopiesAreApartAndMovesAreNot) {
    gx::TrivialVector<int> a{1, 2}, b = a;
    b[0] = 5;
    EXPECT_EQ(a[0], 1);
    const int* place = b.data();
    const gx::TrivialVector<int> c = std::move(b);
    EXPECT_EQ(c.data(), place);
    EXPECT_TRUE(b.empty());  // NOLINT: what a move leaves is promised
    const auto& same = a;
    a = same;
    EXPECT_EQ(values(a), (std::vector<int>{1, 2}));
}
TEST(TrivialVector, RefusesWhatNoMemoryHolds) {
    gx::TrivialVector<double> v{1.0};
    EXPECT_THROW(v.reserve(static_cast<std::size_t>(-1) / 2), std::bad_alloc);
    EXPECT_EQ(values(v), std::vector<double>{1.0});
}
TEST(TrivialVector, AlignsItsElements) {
    struct alignas(64) Line {
        int a = 1;
    };
    gx::TrivialVector<Line> lines;
    for (int i = 0; i < 100; ++i) {
        lines.push_back({i});
        ASSERT_EQ(reinterpret_cast<std::uintptr_t>(lines.data()) % 64, 0u);
    }
    EXPECT_EQ(lines.back().a, 99);
}
/// From half a page on, where elements lie on cache lines.
TEST(TrivialVector, LiesOnLargePagesWhereItIsLarge) {
    constexpr std::size_t page = std::size_t{2} << 20;
    const auto on_page = [](const void* data) {
        return reinterpret_cast<std::uintptr_t>(data) % page == 0;
    };
    for (const std::size_t bytes : {page / 2, page - 4, page, page * 3 / 2, page * 3 / 2 - 4}) {
        gx::TrivialVector<float, 64> v;
        v.resize(bytes / sizeof(float), 1.0f);
        EXPECT_TRUE(on_page(v.data())) << bytes;
        v.back() = 2.0f;
        v.push_back(3.0f);  // moves
        EXPECT_TRUE(on_page(v.data())) << bytes;
        EXPECT_EQ(v[v.size() - 2], 2.0f);
    }
    // Two that follow each other are not both on pages by chance.
    gx::TrivialVector<float, 64> small[2];
    gx::TrivialVector<float> plain[2];
    for (int i = 0; i < 2; ++i) {
        small[i].resize(page / 2 / sizeof(float) - 1);
        plain[i].resize(page / sizeof(float));
    }
    EXPECT_FALSE(on_page(small[0].data()) && on_page(small[1].data()));
    EXPECT_FALSE(on_page(plain[0].data()) && on_page(plain[1].data()));
}
TEST(TrivialVector, GrowsGeometrically) {
    gx::TrivialVector<int> v;
    int moves = 0;
    for (int i = 0; i < 1000; ++i) {
        const int* before = v.data();
        v.resize(v.size() + 1);
        if (v.data() != before) ++moves;
    }
    EXPECT_LE(moves, 12);
}

// ---- A property ---------------------------------------------------------------------
RC_GTEST_PROP(TrivialVector, DoesWhatAVectorDoes, (std::vector<std::uint8_t> program)) {
    gx::TrivialVector<int> mine;
    std::vector<int> expected;
    int next = 0;
    for (const std::uint8_t code : program) {
        const std::size_t at = expected.empty() ? 0 : code / 8 % expected.size();
        switch (++next, code % 8) {
            case 0: mine.clear(), expected.clear(); break;
            case 1: mine.resize(code), expected.resize(code); break;
            case 2: mine.assign(at, next), expected.assign(at, next); break;
            case 3:
                mine.insert(mine.begin() + at, next);
                expected.insert(expected.begin() + static_cast<std::ptrdiff_t>(at), next);
                break;
            case 4:
                mine.erase(mine.begin() + at, mine.end());
                expected.erase(expected.begin() + static_cast<std::ptrdiff_t>(at), expected.end());
                break;
            case 5: {
                auto copy = mine;
                mine = gx::TrivialVector<int>{1, 2, 3};
                mine = std::move(copy);
                break;
            }
            case 6:
                if (expected.empty()) break;
                mine.pop_back(), expected.pop_back();
                break;
            default: mine.push_back(next), expected.push_back(next);
        }
        RC_ASSERT(values(mine) == expected);
        RC_ASSERT(mine.capacity() >= mine.size());
    }
}

}  // namespace

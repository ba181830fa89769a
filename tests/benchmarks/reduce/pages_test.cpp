#include "pages.hpp"  // first, so the header is seen to stand alone

#include <cstring>  // memset
#include <fstream>  // settings

#include <gtest/gtest.h>

namespace {

using gx::bench::pages_kib;
constexpr std::size_t page = std::size_t{2} << 20, pages = 4;

/// Whether the kernel gives pages of 2 MiB to private memory that asks for them.
bool has_large() {
    std::string setting;
    std::getline(std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled"), setting);
    return setting.find("[always]") != setting.npos || setting.find("[madvise]") != setting.npos;
}

/// Four pages of 2 MiB in one mapping, or 512 small ones in the place of each.
class Pages : public ::testing::Test {
protected:
    void SetUp() override {
        all_ = ::mmap(nullptr, (pages + 1) * page, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ASSERT_NE(all_, MAP_FAILED);
        const auto at = reinterpret_cast<std::uintptr_t>(all_);
        begin_ = static_cast<std::byte*>(all_) + ((at + page - 1) / page * page - at);
    }
    void TearDown() override { ::munmap(all_, (pages + 1) * page); }
    /// Writes page `i`, as advised before.
    void write(std::size_t i) { std::memset(begin_ + i * page, 1, page); }
    void advise(int advice) { ASSERT_EQ(::madvise(begin_, pages * page, advice), 0); }

    void* all_ = nullptr;
    std::byte* begin_ = nullptr;
};

TEST_F(Pages, AreSmallWhereThoseOf2MiBWereNotWanted) {
    advise(MADV_NOHUGEPAGE);
    for (std::size_t i = 0; i < pages; ++i) write(i);
    for (const std::size_t bytes : {std::size_t{1}, page, pages * page})
        EXPECT_EQ(pages_kib(begin_, bytes), 4) << bytes;
}
TEST_F(Pages, AreLargeForAShortBufferToo) {
    if (!has_large()) GTEST_SKIP() << "this kernel gives no pages of 2 MiB";
    advise(MADV_HUGEPAGE);
    for (std::size_t i = 0; i < pages; ++i) write(i);
    for (const std::size_t bytes : {std::size_t{1}, page, pages * page})
        EXPECT_EQ(pages_kib(begin_, bytes), 2048) << bytes;
    EXPECT_EQ(pages_kib(begin_ + page + 4096, 1024), 2048) << "in the middle of one";
    EXPECT_EQ(pages_kib(begin_, pages * page), 2048) << "asking has split none";
}
/// As in a heap: what other buffers of one mapping lie on says nothing of this one.
TEST_F(Pages, AreThoseOfTheBufferAndNotOfItsMapping) {
    if (!has_large()) GTEST_SKIP() << "this kernel gives no pages of 2 MiB";
    advise(MADV_NOHUGEPAGE), write(1);
    advise(MADV_HUGEPAGE), write(0), write(2), write(3);
    EXPECT_EQ(pages_kib(begin_ + page, 1024), 4);
    EXPECT_EQ(pages_kib(begin_ + page, page), 4);
    EXPECT_EQ(pages_kib(begin_ + 2 * page, 1024), 2048);
    EXPECT_EQ(pages_kib(begin_, pages * page), 2048) << "three of four";
}

}  // namespace

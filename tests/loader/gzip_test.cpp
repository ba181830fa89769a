#include <gx/loader/gzip.hpp>

#include <loader/idx_files.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace {

using namespace gx;
using support::Bytes, support::gzipped, support::sentence_of, support::TemporaryFolder;
using testing::AllOf, testing::HasSubstr;

Bytes some_bytes(std::size_t count) {
    Bytes bytes;
    std::uint32_t x = 1;
    for (std::size_t i = 0; i < count; ++i) {
        x = x * 1664525u + 1013904223u;
        bytes.push_back(static_cast<std::uint8_t>((x >> 24) & 0x1f));
    }
    return bytes;
}

// ---- Whole files ----------------------------------------------------------------------------
TEST(ReadWholeFile, ReadsPlainAndGzipped) {
    const TemporaryFolder folder;
    for (const std::size_t count : {0u, 1u, 2u, 1'000u, 300'000u}) {
        const Bytes bytes = some_bytes(count);
        EXPECT_EQ(read_whole_file(folder.write("plain", bytes)), bytes) << count;
        EXPECT_EQ(read_whole_file(folder.write("packed", gzipped(bytes))), bytes) << count;
    }
    const Bytes zeros(5'000'000, 0);  // packs a thousandfold
    EXPECT_EQ(read_whole_file(folder.write("zeros.gz", gzipped(zeros))), zeros);
}

TEST(ReadWholeFile, ToldByItsFirstBytesAndNotByItsName) {
    const TemporaryFolder folder;
    Bytes packed = gzipped(some_bytes(100));
    EXPECT_EQ(read_whole_file(folder.write("no-ending", packed)), some_bytes(100));
    packed[1] ^= 1;  // not gzip any more: handed on as it is, for the format to refuse
    EXPECT_EQ(read_whole_file(folder.write("x.gz", packed)), packed);
    packed.resize(packed.size() / 2);
    packed[1] ^= 1;
    EXPECT_THAT(sentence_of([&] { (void)read_whole_file(folder.write("cut.gz", packed)); }),
                HasSubstr("cut.gz: the gzip stream ends"));
}

// ---- Damaged files --------------------------------------------------------------------------
TEST(UnpackGzip, NoticesEveryTruncation) {
    const Bytes packed = gzipped(some_bytes(600));
    for (std::size_t length = 2; length < packed.size(); ++length) {
        const Bytes cut(packed.begin(), packed.begin() + std::ptrdiff_t(length));
        EXPECT_THAT(sentence_of([&] { (void)unpack_gzip(cut, "short.gz"); }),
                    AllOf(HasSubstr("short.gz: the gzip stream ends after " +
                                    std::to_string(length) + " bytes"),
                          HasSubstr("get it again")));
    }
}
// One flag, the time and the system of the header and the padding of the last byte change nothing:
// at most 1 + 32 + 16 + 7 bits. Every other flipped bit must be told.
TEST(UnpackGzip, NoticesEveryFlippedBit) {
    const Bytes plain = some_bytes(600), packed = gzipped(plain);
    int unnoticed = 0;
    for (std::size_t bit = 0; bit < 8 * packed.size(); ++bit) {
        Bytes damaged = packed;
        damaged[bit / 8] = static_cast<std::uint8_t>(damaged[bit / 8] ^ 1u << bit % 8);
        Bytes got;
        const std::string told = sentence_of([&] { got = unpack_gzip(damaged, "flipped.gz"); });
        if (told == "no error") {
            EXPECT_EQ(got, plain) << "bit " << bit << ": wrong bytes went unnoticed";
            ++unnoticed;
        } else {
            EXPECT_THAT(told, HasSubstr("flipped.gz: "));
        }
    }
    EXPECT_LE(unnoticed, 56);
}
TEST(UnpackGzip, NamesACheckSumThatIsWrong) {
    Bytes packed = gzipped(some_bytes(600));
    Bytes length = packed;
    packed[packed.size() - 8] ^= 1;
    length[length.size() - 1] ^= 1;
    EXPECT_THAT(sentence_of([&] { (void)unpack_gzip(packed, "crc.gz"); }),
                HasSubstr("incorrect data check"));
    EXPECT_THAT(sentence_of([&] { (void)unpack_gzip(length, "isize.gz"); }),
                HasSubstr("incorrect length check"));
}
TEST(UnpackGzip, RefusesBytesAfterTheStream) {
    Bytes packed = gzipped(some_bytes(100));
    packed.insert(packed.end(), {1, 2, 3});
    EXPECT_THAT(sentence_of([&] { (void)unpack_gzip(packed, "long.gz"); }),
                HasSubstr("3 bytes follow the gzip stream"));
}
TEST(ReadWholeFile, SaysWhyAFileCannotBeRead) {
    const TemporaryFolder folder;
    EXPECT_THAT(sentence_of([&] { (void)read_whole_file(folder.path() / "none"); }),
                AllOf(HasSubstr("none: cannot be read: No such file"), HasSubstr("Give the path")));
    EXPECT_THAT(sentence_of([&] { (void)read_whole_file(folder.path()); }),
                HasSubstr("cannot be read: Is a directory"));
}

}  // namespace

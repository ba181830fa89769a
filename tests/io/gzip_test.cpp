#include <gx/io/gzip.hpp>

#include <loader/idx_files.hpp>

#include <gmock/gmock.h>
#include <sys/stat.h>  // mkfifo

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

TEST(ReadWholeFile, StopsAtTheMostThatIsAsked) {
    const TemporaryFolder folder;
    const Bytes bytes = some_bytes(300'000);
    for (const auto& file : {folder.write("plain", bytes), folder.write("packed", gzipped(bytes))})
        for (const std::size_t most : {0u, 1u, 1'000u, 299'999u, 300'000u, 300'001u}) {
            const Bytes got = read_whole_file(file, most);
            ASSERT_EQ(got.size(), std::min<std::size_t>(most, 300'000));
            EXPECT_TRUE(std::equal(got.begin(), got.end(), bytes.begin()));
        }
    Bytes cut = gzipped(bytes);
    cut.resize(cut.size() - 9);
    EXPECT_EQ(read_whole_file(folder.write("cut", cut), 1'000).size(), 1'000u);
}

// ---- Damaged files --------------------------------------------------------------------------
/// The error of a file of these bytes.
std::string refused(const TemporaryFolder& folder, const Bytes& bytes) {
    return sentence_of([&] { (void)read_whole_file(folder.write("damaged.gz", bytes)); });
}
TEST(ReadWholeFile, NoticesEveryTruncation) {
    const TemporaryFolder folder;
    const Bytes packed = gzipped(some_bytes(600));
    for (std::size_t length = 2; length < packed.size(); ++length) {
        const Bytes cut(packed.begin(), packed.begin() + std::ptrdiff_t(length));
        EXPECT_THAT(refused(folder, cut),
                    AllOf(HasSubstr("damaged.gz: the gzip stream ends before its check sum"),
                          HasSubstr("get it again")))
            << length;
    }
}
// One flag, the time and the system of the header and the padding of the last byte change nothing:
// at most 1 + 32 + 16 + 7 bits. Every other flipped bit behind the two of the magic is an error.
TEST(ReadWholeFile, NoticesEveryFlippedBit) {
    const TemporaryFolder folder;
    const Bytes plain = some_bytes(600), packed = gzipped(plain);
    int unnoticed = 0;
    for (std::size_t bit = 16; bit < 8 * packed.size(); ++bit) {
        Bytes damaged = packed;
        damaged[bit / 8] = static_cast<std::uint8_t>(damaged[bit / 8] ^ 1u << bit % 8);
        const auto file = folder.write("flipped.gz", damaged);
        Bytes got;
        const std::string told = sentence_of([&] { got = read_whole_file(file); });
        if (told == "no error") {
            EXPECT_EQ(got, plain) << "bit " << bit << ": wrong bytes went unnoticed";
            ++unnoticed;
        } else {
            EXPECT_THAT(told, HasSubstr("flipped.gz: "));
        }
    }
    EXPECT_LE(unnoticed, 56);
}
TEST(ReadWholeFile, NamesACheckSumThatIsWrong) {
    const TemporaryFolder folder;
    Bytes packed = gzipped(some_bytes(600));
    Bytes length = packed;
    packed[packed.size() - 8] ^= 1;
    length[length.size() - 1] ^= 1;
    EXPECT_THAT(refused(folder, packed), HasSubstr("incorrect data check"));
    EXPECT_THAT(refused(folder, length), HasSubstr("incorrect length check"));
}
TEST(ReadWholeFile, RefusesBytesAfterTheStream) {
    const TemporaryFolder folder;
    const Bytes one = gzipped(some_bytes(100));
    for (const Bytes& more : {Bytes{0}, Bytes{1, 2, 3}, Bytes(100, 7), one, gzipped({})}) {
        Bytes packed = one;
        packed.insert(packed.end(), more.begin(), more.end());
        EXPECT_THAT(refused(folder, packed), HasSubstr("follow its first one"));
    }
}
TEST(ReadWholeFile, RefusesWhatMayHaveNoEnd) {
    const TemporaryFolder folder;
    ASSERT_EQ(::mkfifo((folder.path() / "pipe").c_str(), 0600), 0);
    std::filesystem::create_symlink("/dev/zero", folder.path() / "endless");
    for (const char* name : {"pipe", "endless"})
        EXPECT_THAT(sentence_of([&] { (void)read_whole_file(folder.path() / name); }),
                    AllOf(HasSubstr(name), HasSubstr("is a device or a pipe")));
}
TEST(ReadWholeFile, SaysWhyAFileCannotBeRead) {
    const TemporaryFolder folder;
    EXPECT_THAT(sentence_of([&] { (void)read_whole_file(folder.path() / "none"); }),
                AllOf(HasSubstr("none: cannot be read: No such file"), HasSubstr("Give the path")));
    EXPECT_THAT(sentence_of([&] { (void)read_whole_file(folder.path()); }),
                HasSubstr("cannot be read: Is a directory"));
}

}  // namespace

#include <gx/loader/formats/web_dataset.hpp>

#include <loader/formats/shards.hpp>  // stored_samples, bytes_of

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <support/files.hpp>  // Folder, write_text, error_of, holds

namespace {

using namespace gx;
using namespace testing_support;
using testing::ElementsAre, testing::ElementsAreArray;
namespace fs = std::filesystem;

/// Header and data of a member.
std::string member(const std::string& name, const std::string& data, char kind = '0',
                   const std::string& link = "") {
    std::string header(512, '\0');
    const auto put = [&](std::size_t at, const std::string& text) {
        header.replace(at, text.size(), text);
    };
    char size[12];
    std::snprintf(size, sizeof size, "%011zo", data.size());
    put(0, name);
    put(124, size);
    put(148, "        ");
    header[156] = kind;
    put(157, link);
    put(257, "ustar");
    put(263, "00");
    unsigned sum = 0;
    for (const char c : header) sum += static_cast<unsigned char>(c);
    char checksum[8];
    std::snprintf(checksum, sizeof checksum, "%06o", sum);
    put(148, std::string(checksum, 7) + " ");
    return header + data + std::string((512 - data.size() % 512) % 512, '\0');
}
std::string sample(const std::string& key, const std::string& image, int label) {
    return member(key + ".jpg", image) + member(key + ".cls", std::to_string(label));
}
const std::string end(1024, '\0');

// ---- Files of others ------------------------------------------------------------------------
TEST(WebDataset, ReadsWhatWebdatasetWrote) {
    const Folder folder;
    write_text(folder / "a.tar", bytes_of(shards::web_dataset));
    const WebDataset source(folder / "a.tar");
    EXPECT_EQ(source.info(), (EncodedInfo{.name = "a.tar", .count = 5, .classes = 1000}));
    EXPECT_THAT(samples_of(source), ElementsAreArray(stored_samples()));
    EXPECT_EQ(source.entry(4).name, "sample0004");
}
TEST(WebDataset, ReadsLongNamesOfEachKindOfTar) {
    const Folder folder;
    const auto stored = stored_samples();
    for (const auto text : {shards::tar_ustar, shards::tar_gnu, shards::tar_pax}) {
        write_text(folder / "a.tar", bytes_of(text));
        const WebDataset source(folder / "a.tar");
        EXPECT_THAT(samples_of(source), ElementsAre(stored[0], stored[1]));
        const std::string name = source.entry(1).name;
        EXPECT_EQ(name.size(), 121u);
        EXPECT_TRUE(holds(name, "v1.0/deep/deep/", "/very-long-name-1"));
    }
}

// ---- Cases worked by hand -------------------------------------------------------------------
TEST(WebDataset, FormsSamplesOfNeighbours) {
    const Folder folder;
    write_text(folder / "a.tar",
               member("a/", "", '5') + member("a/1.x.cls", "9") + member("a/1.CLS", " \n") + end);
    EXPECT_TRUE(holds(error_of([&] { const WebDataset source(folder / "a.tar"); }), "sample 'a/1'",
                      "0 images and 1 labels"));
    write_text(folder / "a.tar", member("__meta__", "x") + member(".hidden.jpg", "x") +
                                     member("readme", "x") + member("v.1/k.seg.png", "other") +
                                     member("v.1/k.cls", "3\r\n") + member("v.1/k.JPG", "k") +
                                     member("v.1/l.png", "l") + member("v.1/l.cls", "0") +
                                     member("l.jpg", "", '2') + end);
    const WebDataset source(folder / "a.tar");
    EXPECT_THAT(samples_of(source), ElementsAre(StoredSample{"k", 3}, StoredSample{"l", 0}));
    EXPECT_EQ(source.entry(0).name, "v.1/k");
}
TEST(WebDataset, TakesTheEndingsThatItIsGiven) {
    const Folder folder;
    write_text(folder / "a.tar", member("1.webp", "x") + member("1.label", "1") + end);
    EXPECT_THAT(samples_of(WebDataset(folder / "a.tar", {{.first_label = 1}, {"webp"}, "label"})),
                ElementsAre(StoredSample{"x", 0}));
}
TEST(WebDataset, ReadsSizesInBinaryAndOfPax) {
    const Folder folder;
    std::string binary = member("1.jpg", "abc");
    unsigned sum = 0;  // GNU: the highest bit, then the number
    binary.replace(124, 12, std::string("\x80\0\0\0\0\0\0\0\0\0\0\3", 12));
    binary.replace(148, 8, "        ");
    for (std::size_t i = 0; i < 512; ++i) sum += static_cast<unsigned char>(binary[i]);
    char checksum[8];
    std::snprintf(checksum, sizeof checksum, "%06o", sum);
    binary.replace(148, 7, std::string(checksum, 7));
    std::string by_pax = member("2.jpg", "abcde");
    write_text(folder / "a.tar", binary + member("1.cls", "1") +
                                     member("pax", "10 size=4\n9 path=2", 'x') + by_pax + end);
    EXPECT_TRUE(holds(error_of([&] { const WebDataset source(folder / "a.tar"); }),
                      "its pax header is no list"));
    write_text(folder / "a.tar", binary + member("1.cls", "1") +
                                     member("pax", "10 size=4\n14 path=3.jpg\n", 'x') + by_pax +
                                     member("3.cls", "2") + end);
    EXPECT_THAT(samples_of(WebDataset(folder / "a.tar")),
                ElementsAre(StoredSample{"abc", 1}, StoredSample{"abcd", 2}));
}
/// Some tars of long ago add up bytes with a sign.
TEST(WebDataset, ReadsHeadersWhoseChecksumHasSigns) {
    const Folder folder;
    std::string image = member("\xc3\xa9.jpg", "x");
    int sum = 0;
    image.replace(148, 8, 8, ' ');
    for (const char c : image.substr(0, 512)) sum += static_cast<signed char>(c);
    image.replace(148, 6, fmt::format("{:06o}", sum));
    write_text(folder / "a.tar", image + member("\xc3\xa9.cls", "3") + end);
    EXPECT_THAT(samples_of(WebDataset(folder / "a.tar")), ElementsAre(StoredSample{"x", 3}));
}
/// In some systems the size of a folder is a quota, and that of a link is its file's.
TEST(WebDataset, FoldersAndLinksHaveNoData) {
    const Folder folder;
    const auto of_size = [](const char* name, char kind) {
        return member(name, std::string(2000, 'x'), kind, "a/0.txt").substr(0, 512);
    };
    write_text(folder / "a.tar", sample("a/0", "zero", 0) + of_size("b/", '5') +
                                     sample("b/1", "one", 1) + of_size("b/link", '1') +
                                     of_size("b/symbolic", '2') + of_size("b/pipe", '6') +
                                     sample("b/2", "two", 2) + end);
    EXPECT_THAT(
        samples_of(WebDataset(folder / "a.tar")),
        ElementsAre(StoredSample{"zero", 0}, StoredSample{"one", 1}, StoredSample{"two", 2}));
}
/// As 'tar --label' writes it, whose size is left empty.
TEST(WebDataset, ALabelOfTheVolumeIsNoMember) {
    const Folder folder;
    std::string label = member("volume", "", 'V');
    unsigned sum = 0;
    label.replace(124, 12, 12, '\0');
    label.replace(148, 8, 8, ' ');
    for (const char c : label) sum += static_cast<unsigned char>(c);
    label.replace(148, 6, fmt::format("{:06o}", sum));
    write_text(folder / "a.tar", label + sample("a", "x", 1) + end);
    EXPECT_THAT(samples_of(WebDataset(folder / "a.tar")), ElementsAre(StoredSample{"x", 1}));
}

// ---- A property -----------------------------------------------------------------------------
TEST(WebDataset, ReadsWhatATarHolds) {
    EXPECT_TRUE(rc::check([] {
        const Folder folder;
        std::vector<StoredSample> all;
        std::vector<fs::path> shards;
        for (int left = *rc::gen::inRange(1, 4); left-- > 0;) {
            std::string tar;
            for (int images = *rc::gen::inRange(1, 6); images-- > 0;) {
                std::string bytes = *rc::gen::nonEmpty<std::string>();
                if (*rc::gen::inRange(0, 4) == 0) bytes.resize(40'000, 'z');
                all.push_back({bytes, *rc::gen::inRange(0, 1 << 20)});
                tar += sample(std::to_string(all.size()), bytes, all.back().label);
            }
            shards.push_back(folder.path / std::to_string(left));
            write_text(shards.back(), tar + end);
        }
        RC_ASSERT(samples_of(WebDataset(shards)) == all);
    }));
}

TEST(WebDataset, TakesTwoNamesInBraces) {
    EXPECT_THAT(error_of([] { const WebDataset source({"none-0.tar", "none-1.tar"}); }),
                ::testing::HasSubstr("'none-0.tar' can't be opened"));
}

// ---- Bad files ------------------------------------------------------------------------------
class BadWebDataset : public testing::Test {
protected:
    std::string opening(const std::string& bytes, const WebDatasetOptions& options = {}) {
        write_text(folder / "a.tar", bytes);
        return error_of([&] { const WebDataset source(folder / "a.tar", options); });
    }
    std::vector<StoredSample> skipping(const std::string& bytes, std::int64_t skipped = 1) {
        write_text(folder / "a.tar", bytes);
        WebDatasetOptions options;
        options.on_corrupt = OnCorrupt::skip;
        const WebDataset source(folder / "a.tar", options);
        EXPECT_EQ(source.skipped().count, skipped);
        return samples_of(source);
    }
    const Folder folder;
    const std::string good = sample("good", "image", 2);  // 2048 bytes
};
TEST_F(BadWebDataset, AHeaderOfAnotherChecksumEndsTheFile) {
    for (const std::size_t i : {0, 100, 130, 156, 511}) {
        std::string bytes = good + sample("next", "x", 0);
        bytes[2048 + i] ^= 1;
        EXPECT_TRUE(holds(opening(bytes + end), "a.tar', record at byte 2048", "its tar header"))
            << i;
        EXPECT_THAT(skipping(bytes + end), ElementsAre(StoredSample{"image", 2}));
    }
    EXPECT_TRUE(holds(opening(std::string(2000, 'x')), "checksum in its header is no octal"));
}
TEST_F(BadWebDataset, EveryShorterFile) {
    const std::string bytes = good + end;
    for (std::size_t n = 0; n < 2048 + 512; n += 7)
        EXPECT_TRUE(holds(opening(bytes.substr(0, n)), "a.tar', record at byte")) << n;
    EXPECT_TRUE(holds(opening(good), "record at byte 2048", "ends 0 bytes behind a member"));
    EXPECT_TRUE(
        holds(opening(bytes.substr(0, 515)), "'good.jpg' has 5 bytes, and the file ends 3"));
    EXPECT_THAT(skipping(good), ElementsAre(StoredSample{"image", 2}));
}
TEST_F(BadWebDataset, SamplesThatAreNotWhole) {
    const auto skipped = [&](const std::string& bad) {
        EXPECT_THAT(skipping(good + bad + sample("last", "x", 1) + end),
                    ElementsAre(StoredSample{"image", 2}, StoredSample{"x", 1}));
        return opening(good + bad + end);
    };
    EXPECT_TRUE(holds(skipped(member("a.jpg", "x")), "record at byte 2048",
                      "sample 'a' has 1 "
                      "images and 0 labels",
                      "'a.jpg' and 'a.cls'"));
    EXPECT_TRUE(holds(skipped(member("a.cls", "1")), "0 images and 1 labels"));
    EXPECT_TRUE(holds(skipped(sample("a", "x", 1) + member("a.png", "y")), "2 images"));
    EXPECT_TRUE(holds(skipped(member("a.cls", "1") + sample("a", "x", 1)), "2 labels"));
    EXPECT_TRUE(holds(skipped(sample("a", "", 1)), "'a.jpg' is empty"));
    EXPECT_TRUE(holds(skipped(member("a.jpg", "x") + member("a.cls", "cat\n")),
                      "'a.cls' holds 'cat': expected a whole number"));
    EXPECT_TRUE(holds(skipped(member("a.jpg", "x") + member("a.cls", std::string("1\0\x1b[2J", 6))),
                      R"('a.cls' holds '1\u0000\u001b[2J': expected a whole number)"))
        << "a terminal takes these bytes for a command, and what() ends at a 0";
    EXPECT_TRUE(holds(skipped(member("\x1b\xff.jpg", "x")),
                      R"(sample '\u001b\ufffd' has 1 images and 0 labels)",
                      R"(such as '\u001b\ufffd.jpg')"));
    EXPECT_TRUE(holds(skipped(sample("\x1b", "", 1)), R"('\u001b.jpg' is empty)"));
    EXPECT_TRUE(holds(skipped(member("a.jpg", "x") + member("a.cls", "")), "holds ''"));
    EXPECT_TRUE(holds(skipped(sample("a", "x", -1)), "label is -1"));
}
TEST_F(BadWebDataset, LinksInThePlaceOfMembers) {
    for (const char kind : {'1', '2'}) {
        EXPECT_TRUE(holds(opening(good + member("a.jpg", "", kind, "good.jpg") +
                                  member("a.cls", "", kind, "good.cls") + end),
                          "record at byte 2048", "' is a link to 'good.", "--hard-dereference"));
        EXPECT_TRUE(holds(
            opening(good + member("a.jpg", "x") + member("a.cls", "", kind, "good.cls") + end),
            "'a.cls' is a link to 'good.cls'"));
        EXPECT_EQ(opening(member("notes", "", kind, "good.jpg") +
                          member("notes.txt", "", kind, "x") + good + end),
                  "no error");
        EXPECT_EQ(opening(member("a.jpg", "x") + member("notes.txt", "", kind, "x") +
                          member("a.cls", "1") + end),
                  "no error");
    }
}
TEST_F(BadWebDataset, LinksBetweenTheMembersOfASample) {
    const auto link = [&](const char* name) { return member(name, "", '2', "x"); };
    const std::string image = member("a.jpg", "x"), label = member("a.cls", "1");
    const StoredSample a{"x", 1}, stored{"image", 2};
    // Alone, or as many of several keys, they are of no sample.
    for (const std::string& links : {link("z.jpg"), link("y.cls") + link("z.jpg") + link("y.jpg")})
        EXPECT_THAT(skipping(image + links + label + good + end, 0), ElementsAre(a, stored));
    EXPECT_THAT(skipping(image + link("a.txt") + label + good + end, 0), ElementsAre(a, stored));
    // A sample of links is corrupt, and so is one with a link: neither takes the others with it.
    EXPECT_THAT(skipping(image + link("z.jpg") + link("z.cls") + label + good + end, 1),
                ElementsAre(a, stored));
    EXPECT_THAT(skipping(image + label + link("z.jpg") + member("z.cls", "1") + good + end, 1),
                ElementsAre(a, stored));
    EXPECT_THAT(skipping(good + link("y.jpg") + link("z.jpg") + image + label + end, 0),
                ElementsAre(stored, a));
    EXPECT_THAT(skipping(good + image + link("z.jpg") + link("a.cls") + end, 1),
                ElementsAre(stored));
    EXPECT_TRUE(holds(opening(image + link("z.jpg") + member("z.cls", "1") + good + end),
                      "record at byte 0", "sample 'a' has 1 images and 0 labels"));
}
TEST_F(BadWebDataset, WhatFollowsABlockOfZeros) {
    const std::string lost = good + std::string(512, '\0') + sample("next", "x", 0) + end;
    EXPECT_TRUE(holds(opening(lost), "record at byte 2048", "a block of zeros ends the archive",
                      "3072 bytes from byte 2560 on are no zeros"));
    EXPECT_THAT(skipping(lost), ElementsAre(StoredSample{"image", 2}));
    EXPECT_TRUE(holds(opening(good + end + std::string(200'000, '\0') + "x"),
                      "1 bytes from byte 203072 on"));
    EXPECT_EQ(opening(good + std::string(512 + 200'000, '\0')), "no error");
}
/// As 'tar --sparse' writes them: in GNU's format, with 3 more blocks of its map, and in pax's.
TEST_F(BadWebDataset, SparseFilesAreCorruptSamples) {
    const std::string more = std::string(325, '\0') + '\1', map(504, 'm'),
                      label = member("a.cls", "1");
    const std::string of_gnu = member("a.jpg", std::string(600, 'x'), 'S', more);
    const auto blocks = [&](char last) { return map + last + std::string(7, '\0'); };
    const std::string long_map =
        of_gnu.substr(0, 512) + blocks('\1') + blocks('\1') + blocks('\0') + of_gnu.substr(512);
    const std::string of_pax =
        member("pax", "22 GNU.sparse.major=1\n25 GNU.sparse.name=a.jpg\n21 path=sparse/a.jpg\n",
               'x') +
        member("sparse/a.jpg", std::string(600, 'x'));
    for (const std::string& image : {member("a.jpg", "x", 'S'), long_map, of_pax}) {
        const std::string bytes = good + image + label + sample("last", "x", 1) + end;
        EXPECT_TRUE(holds(opening(bytes), "a.tar', record at byte",
                          "'a.jpg' is a sparse file: expected whole ones, as tar"));
        EXPECT_THAT(skipping(bytes), ElementsAre(StoredSample{"image", 2}, StoredSample{"x", 1}));
    }
    EXPECT_EQ(opening(good + member("good.txt", "x", 'S') + end), "no error");
    EXPECT_THAT(skipping(good + long_map.substr(0, 1536), 2),  // and the end is missing
                ElementsAre(StoredSample{"image", 2}));
}
TEST_F(BadWebDataset, AKeyThatComesTwice) {
    const std::string bytes = good + sample("b", "b", 1) + good + end;
    EXPECT_TRUE(holds(opening(bytes), "record at byte 4096", "key 'good' has come before"));
    EXPECT_THAT(skipping(bytes), ElementsAre(StoredSample{"image", 2}, StoredSample{"b", 1}));
}
TEST_F(BadWebDataset, FilesThatAreNone) {
    EXPECT_TRUE(holds(opening(""), "the file is empty"));
    EXPECT_TRUE(holds(opening(end), "a.tar' holds no sample"));
    EXPECT_TRUE(holds(opening(good + end, {{.classes = 2}}), "label is 2", "from 0 to 1"));
}
TEST_F(BadWebDataset, FilesThatAreCompressed) {
    // As gzip, bzip2, xz and zstd begin theirs.
    const std::string rest(3000, 'x');
    for (const auto& [name, magic] : {std::pair<const char*, std::string>{"gzip", "\x1f\x8b\x08"},
                                      {"bzip2", "BZh91AY&SY"},
                                      {"xz", "\xfd\x37zXZ"},
                                      {"zstd", "\x28\xb5\x2f\xfd"}}) {
        const std::string sentence = std::string("a.tar' is compressed by ") + name;
        EXPECT_TRUE(holds(opening(magic + rest), sentence, "Decompress it"));
        WebDatasetOptions skips;
        skips.on_corrupt = OnCorrupt::skip;
        EXPECT_TRUE(holds(opening(magic + rest, skips), sentence)) << "it is no corrupt record";
    }
    EXPECT_EQ(opening(sample("BZh9", "image", 0) + end), "no error");
}

}  // namespace

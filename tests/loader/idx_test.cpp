#include <gx/loader/idx.hpp>

#include <loader/idx_files.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace {

using namespace gx;
using support::Bytes, support::gzipped, support::idx, support::sentence_of;
using support::TemporaryFolder;
using testing::AllOf, testing::ElementsAre, testing::HasSubstr;

const Bytes three_images = idx(8, {3, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
const Bytes three_labels = idx(8, {3}, {0, 9, 4});

// ---- A case worked by hand ------------------------------------------------------------------
TEST(ReadIdx, ReadsPlainAndGzipped) {
    const TemporaryFolder folder;
    const auto plain = folder.write("images", three_images);
    const auto packed = folder.write("images.gz", gzipped(three_images));
    for (const auto& file : {plain, packed}) {
        const IdxArray array = read_idx(file, 3);
        EXPECT_THAT(array.sizes, ElementsAre(3, 2, 2));
        EXPECT_THAT(array.bytes, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12));
    }
}
TEST(ReadIdxDataset, JoinsImagesAndLabels) {
    const TemporaryFolder folder;
    const Dataset data = read_idx_dataset(folder.write("i", three_images),
                                          folder.write("l", three_labels), 10, "three");
    EXPECT_EQ(data.shape, (ImageShape{1, 2, 2}));
    EXPECT_EQ(data.count(), 3);
    EXPECT_EQ(data.name, "three");
    EXPECT_THAT(data.labels, ElementsAre(0, 9, 4));
    EXPECT_FLOAT_EQ(data.mean.at(0), 6.5f / 255);
}

// ---- A property: what was written is read ---------------------------------------------------
RC_GTEST_PROP(ReadIdx, ReadsWhatWasWritten, (bool pack)) {
    const TemporaryFolder folder;
    const auto sizes = *rc::gen::container<std::vector<std::uint32_t>>(
        *rc::gen::inRange<std::size_t>(1, 5), rc::gen::inRange<std::uint32_t>(1, 9));
    std::size_t count = 1;
    for (const std::uint32_t s : sizes) count *= s;
    const auto data = *rc::gen::container<Bytes>(count, rc::gen::arbitrary<std::uint8_t>());
    const Bytes file = idx(8, sizes, data);
    const auto written = folder.write("f", pack ? gzipped(file) : file);
    const IdxArray got = read_idx(written, int(sizes.size()));
    RC_ASSERT(got.bytes == data);
    RC_ASSERT(std::equal(sizes.begin(), sizes.end(), got.sizes.begin(), got.sizes.end()));
}

// ---- Bad files ------------------------------------------------------------------------------
std::string trouble(const Bytes& bytes, int dimensions = 3) {
    const TemporaryFolder folder;
    return sentence_of([&] { (void)read_idx(folder.write("bad", bytes), dimensions); });
}
TEST(ReadIdx, RefusesAnotherMagicNumber) {
    EXPECT_THAT(trouble(three_labels), AllOf(HasSubstr("bad: expected"), HasSubstr("found 2049")));
    EXPECT_THAT(trouble(three_images, 1), AllOf(HasSubstr("2049"), HasSubstr("found 2051")));
    EXPECT_THAT(trouble(idx(13, {1, 1, 1}, {0, 0, 0, 0})),
                AllOf(HasSubstr("expected the magic number 2051"), HasSubstr("found 3331")));
    EXPECT_THAT(trouble(gzipped(gzipped(three_images))), HasSubstr("magic number"));
    EXPECT_THAT(trouble({}), HasSubstr("expected an IDX header of 16 bytes, found 0 bytes"));
}
TEST(ReadIdx, RefusesEveryTruncation) {
    for (std::size_t length = 0; length < three_images.size(); ++length) {
        const Bytes cut(three_images.begin(), three_images.begin() + std::ptrdiff_t(length));
        const std::string expected = length < 16
                                         ? "found " + std::to_string(length) + " bytes"
                                         : "12 bytes of data, found " + std::to_string(length - 16);
        EXPECT_THAT(trouble(cut), HasSubstr(expected));
        EXPECT_THAT(trouble(gzipped(cut)), HasSubstr(expected));
    }
}
TEST(ReadIdx, RefusesTrailingBytes) {
    Bytes longer = three_images;
    longer.push_back(0);
    EXPECT_THAT(trouble(longer), HasSubstr("12 bytes of data, found more"));
    EXPECT_THAT(trouble(gzipped(longer)), HasSubstr("12 bytes of data, found more"));
}
// The streams are cut off: who unpacks all of one meets its end first.
TEST(ReadIdx, UnpacksNoMoreThanItsHeaderSays) {
    Bytes longer = three_images;
    longer.resize(20'000'000);
    Bytes packed = gzipped(longer);
    packed.resize(packed.size() - 9);
    EXPECT_THAT(trouble(packed), HasSubstr("12 bytes of data, found more"));
    Bytes other = gzipped(Bytes(20'000'000, 7));
    other.resize(other.size() - 9);
    EXPECT_THAT(trouble(other), HasSubstr("expected the magic number 2051"));
}
TEST(ReadIdx, RefusesEveryFlippedBitOfTheHeader) {
    for (std::size_t bit = 0; bit < 8 * 16; ++bit) {
        Bytes flipped = three_images;
        flipped[bit / 8] = static_cast<std::uint8_t>(flipped[bit / 8] ^ 1u << bit % 8);
        EXPECT_NE(trouble(flipped), "no error") << "bit " << bit;
    }
}
TEST(ReadIdx, RefusesSizesThatNoFileHas) {
    EXPECT_THAT(trouble(idx(8, {0, 28, 28}, {})), HasSubstr("a size of 0"));
    EXPECT_THAT(trouble(idx(8, {0xffffffff, 0xffffffff, 0xffffffff}, {1})), HasSubstr("2 GiB"));
    EXPECT_THAT(trouble(idx(8, {0x80000000, 2, 0x80000000}, {1})), HasSubstr("2 GiB"));
    EXPECT_THAT(trouble(idx(8, {65536, 65536, 1}, {})), HasSubstr("2 GiB")) << "2^32 is not 0";
}
TEST(ReadIdxDataset, RefusesLabelsThatDoNotFit) {
    const TemporaryFolder folder;
    const auto images = folder.write("images", three_images);
    const auto joined = [&](const Bytes& labels) {
        return sentence_of(
            [&] { (void)read_idx_dataset(images, folder.write("labels", labels), 10, "x"); });
    };
    EXPECT_EQ(joined(three_labels), "no error");
    EXPECT_THAT(joined(idx(8, {3}, {0, 10, 11})),
                AllOf(HasSubstr("labels: label 1 is 10: expected 0 to 9")));
    EXPECT_THAT(joined(idx(8, {2}, {0, 1})), AllOf(HasSubstr("one label for each of the 3 images"),
                                                   HasSubstr("found 2 labels")));
    EXPECT_THAT(joined(idx(8, {4}, {0, 1, 2, 3})), HasSubstr("found 4 labels"));
}

// ---- Fashion-MNIST --------------------------------------------------------------------------
TEST(FashionMnist, SaysWhichPackageIsMissing) {
    const TemporaryFolder folder;
    for (const auto& place : {folder.path(), folder.path() / "nowhere"})
        EXPECT_THAT(sentence_of([&] { (void)fashion_mnist(place); }),
                    AllOf(HasSubstr("train-images-idx3-ubyte: there is no such file"),
                          HasSubstr("apt-get install dataset-fashion-mnist")));
}
TEST(FashionMnist, SaysWhyAFolderCannotBeLookedInto) {
    const TemporaryFolder folder;
    const auto loop = folder.path() / "loop";
    std::filesystem::create_symlink(loop, loop);
    EXPECT_THAT(sentence_of([&] { (void)fashion_mnist(loop); }),
                AllOf(HasSubstr("loop/train-images-idx3-ubyte.gz: cannot be read: Too many levels"),
                      HasSubstr("Give the path of a data file that this user may read")));
}
TEST(FashionMnist, ReadsPlainFilesToo) {
    const TemporaryFolder folder;
    for (const std::string part : {"train", "t10k"}) {
        folder.write(part + "-images-idx3-ubyte", three_images);
        folder.write(part + "-labels-idx1-ubyte", three_labels);
    }
    EXPECT_EQ(fashion_mnist(folder.path()).test.count(), 3);
    folder.write("t10k-images-idx3-ubyte", idx(8, {3, 1, 1}, {1, 2, 3}));
    EXPECT_THAT(sentence_of([&] { (void)fashion_mnist(folder.path()); }),
                HasSubstr("differ in size"));
}
// The real files: fails, with the sentence that says what to install, where they are not.
TEST(FashionMnist, IsTheDataSetThatIsPublished) {
    const Split data = fashion_mnist();
    ASSERT_EQ(data.train.count(), 60'000);
    ASSERT_EQ(data.test.count(), 10'000);
    EXPECT_EQ(data.train.shape, (ImageShape{1, 28, 28}));
    EXPECT_EQ(data.train.classes, 10);
    for (const Dataset* part : {&data.train, &data.test}) {
        std::vector<std::int64_t> per_class(10);
        for (const std::uint8_t label : part->labels) ++per_class.at(label);
        for (const auto n : per_class) EXPECT_EQ(n, part->count() / 10);
    }
    EXPECT_NEAR(data.train.mean.at(0), 0.2860f, 5e-5f);  // the figures that everybody uses
    EXPECT_NEAR(data.train.deviation.at(0), 0.3530f, 5e-5f);
    EXPECT_EQ(data.test.mean, data.train.mean);
    EXPECT_EQ(data.test.deviation, data.train.deviation);
}

}  // namespace

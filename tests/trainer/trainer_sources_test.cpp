// One Trainer on sources that are not in memory: the bits of a Split, in every world.
#include <gx/trainer/trainer.hpp>

#include <algorithm>  // any_of

#include <gtest/gtest.h>

#include <gx/loader/encoded_source.hpp>        // SkippedRecords
#include <gx/loader/prefetch.hpp>              // Prefetched
#include <gx/loader/record_file.hpp>           // RecordFile
#include <gx/reducer/ring.hpp>                 // Ring
#include <gx/sim/catalog/simple_clusters.hpp>  // ethernet_10g
#include <gx/sim/world/cluster.hpp>            // Cluster
#include <gx/sim/world/device.hpp>             // Device
#include <gx/testing/processes.hpp>            // ProcessWorld

#include <loader/odd_source.hpp>      // OddSource
#include <support/run_checked.hpp>    // run_checked
#include <testing/one_rank.hpp>       // OneRank
#include <testing/processes_run.hpp>  // Shared, WithProcesses
#include <trainer/small.hpp>          // images, threads, Folder

namespace {

using namespace testing_support;
using gx::fp32;
using Cluster = gx::sim::Cluster<gx::reference::Device>;
using Processes = gx::testing::ProcessWorld<gx::reference::Device>;
using TrainerSources = WithProcesses;
using Plain = gx::Trainer<Net, gx::Ring<fp32>>;
using Ahead = gx::Trainer<Net, gx::Ring<fp32>, gx::Warmup<gx::Poly<2>>,
                          gx::Prefetched<gx::InMemory<gx::PadCrop<1>, gx::Flip>>>;

/// `data` in two files.
struct Files {
    explicit Files(const gx::Split& data) {
        gx::write_records(folder / "train.gxr", data.train);
        gx::write_records(folder / "test.gxr", data.test);
    }
    Folder folder;
};

// ---- The bits of a data set in memory --------------------------------------------------------
template <class T>
void learns_the_same() {
    const gx::Split data = images();
    const Files files(data);
    const gx::RecordFile train(files.folder / "train.gxr"), test(files.folder / "test.gxr");
    const gx::Sources sources{train, test};
    const T trainer({.batch = 3, .epochs = 3, .seed = 3});
    auto wall = threads(4);
    const gx::RunRecord expected = trainer.train(wall, data);
    EXPECT_NE(expected.weights_hash, 0u);
    expect_same_learning(trainer.train(wall, sources), expected);
    Cluster in_memory(gx::sim::ethernet_10g(4), {}), from_files(gx::sim::ethernet_10g(4), {});
    const gx::RunRecord a = trainer.train(in_memory, data), b = trainer.train(from_files, sources);
    expect_same_learning(b, expected);
    EXPECT_EQ(a.event_hash, b.event_hash);
    EXPECT_EQ(a.at_chance, b.at_chance);
    EXPECT_EQ(a.warnings, b.warnings);
}
TEST(Sources, TrainAsTheDataInMemoryDoes) { learns_the_same<Plain>(); }
TEST(Sources, TrainAsTheDataInMemoryDoesReadAhead) { learns_the_same<Ahead>(); }

TEST_F(TrainerSources, EachProcessOpensItsOwn) {
    const gx::Split data = images();
    const Files files(data);
    auto wall = threads(3);
    const Plain trainer({.batch = 3, .epochs = 2, .seed = 3});
    const gx::RunRecord expected = trainer.train(wall, data);
    Processes forked({.placement = {3, 1}});
    {
        const gx::RecordFile train(files.folder / "train.gxr"), test(files.folder / "test.gxr");
        expect_same_learning(trainer.train(forked, gx::Sources{train, test}), expected);
    }
    Processes world({.placement = {3, 1}});
    run_checked(world, [&](auto& rank) {
        const gx::RecordFile train(files.folder / "train.gxr"), test(files.folder / "test.gxr");
        OneRank local(rank);
        expect_same_learning(trainer.train(local, gx::Sources{train, test}), expected);
    });
}

TEST(Sources, ResumeOnTheSameImagesWhereverTheyAreStored) {
    const gx::Split data = images();
    const Files files(data);
    const gx::RecordFile train(files.folder / "train.gxr"), test(files.folder / "test.gxr");
    const Folder out;
    Plain::Options o{.batch = 3, .epochs = 2, .seed = 3, .output = out.path};
    auto wall = threads(2);
    const gx::RunRecord whole = Plain(o).train(wall, data);
    o.output.clear();
    o.resume = out / "epoch-0001.safetensors";
    EXPECT_EQ(Plain(o).train(wall, gx::Sources{train, test}).weights_hash, whole.weights_hash);
}

// ---- Faults ----------------------------------------------------------------------------------
TEST(Sources, OtherImagesAreNotResumedOn) {
    const gx::Split data = images();
    const Folder out;
    Plain::Options o{.batch = 3, .epochs = 2, .seed = 3, .output = out.path};
    auto wall = threads(2);
    (void)Plain(o).train(wall, data);
    o.resume = out / "epoch-0001.safetensors";
    gx::Split pixel = data, label = data, brighter = data, longer = images(41);
    ++pixel.train.pixels[7];
    std::swap(label.train.labels[0], label.train.labels[1]);
    ASSERT_NE(label.train.labels[0], label.train.labels[1]);
    brighter.train.mean[0] += 0.25f;
    for (const gx::Split& other : {pixel, label, brighter})
        EXPECT_TRUE(holds(error_of([&] { (void)Plain(o).train(wall, other); }),
                          "it was trained on other images than those of 'synthetic'",
                          "give the same training set"));
    const std::string count = error_of([&] { (void)Plain(o).train(wall, longer); });
    EXPECT_TRUE(holds(count, "it was trained on 40 images, and this run has 41"));
    EXPECT_EQ(count.find("other images"), std::string::npos) << "one reason is enough";
}
TEST(Sources, OtherTestImagesAreNoted) {
    const gx::Split data = images();
    const Folder out, between;
    Plain::Options o{.batch = 3, .epochs = 2, .seed = 3, .output = out.path};
    auto wall = threads(2);
    const std::uint64_t whole = Plain(o).train(wall, data).weights_hash;
    o.resume = out / "epoch-0001.safetensors";
    o.output.clear();
    gx::Split other = data;
    ++other.test.pixels[7];
    const gx::RunRecord same = Plain(o).train(wall, data), changed = Plain(o).train(wall, other);
    EXPECT_EQ(same.notes, std::vector<std::string>{});
    EXPECT_EQ(changed.notes,
              std::vector<std::string>{"resumed after epoch 1 with other test images: accuracies "
                                       "of earlier epochs are not of 'synthetic'."});
    EXPECT_EQ(changed.weights_hash, whole);
    o.evaluate = false;
    o.output = between.path;
    EXPECT_EQ(Plain(o).train(wall, other).notes, std::vector<std::string>{}) << "it has none";
    o.evaluate = true;
    o.epochs = 3;
    o.resume = between / "epoch-0002.safetensors";
    const auto is_noted = [&](const gx::Split& now) {
        const auto notes = Plain(o).train(wall, now).notes;
        return std::ranges::any_of(notes, [](const std::string& note) {
            return holds(note, "resumed after epoch 2 with other test images");
        });
    };
    EXPECT_TRUE(is_noted(other)) << "the first epoch was tested by the first images";
    EXPECT_FALSE(is_noted(data));
}
/// What each of three ranks throws; rank 1 opens its own training file.
struct Texts {
    char of[3][600];
};
void train_with(auto& world, const std::filesystem::path& of_rank_1, const Files& files,
                Texts& texts, bool cut) {
    run_checked(world, [&](auto& rank) {
        const bool odd = rank.rank() == 1;
        const gx::RecordFile train(odd ? of_rank_1 : files.folder / "train.gxr"),
            test(files.folder / "test.gxr");
        if (odd && cut) std::filesystem::resize_file(of_rank_1, 400);
        OneRank local(rank);
        const std::string text = error_of(
            [&] { (void)Plain({.batch = 3, .epochs = 2}).train(local, gx::Sources{train, test}); });
        text.copy(texts.of[rank.rank()], 599);
    });
}
TEST_F(TrainerSources, RanksThatNameOtherDataAreNamed) {
    const Files files(images());
    gx::Split other = images();
    ++other.train.pixels[7];
    gx::write_records(files.folder / "other.gxr", other.train);
    gx::Split longer = images(41);
    gx::write_records(files.folder / "longer.gxr", longer.train);
    gx::Split brighter = images();  // equal records, normalised otherwise
    brighter.train.mean[0] += 0.25f;
    gx::write_records(files.folder / "brighter.gxr", brighter.train);
    for (const char* name : {"other.gxr", "longer.gxr", "brighter.gxr"}) {
        Texts texts{};
        auto wall = threads(3);
        train_with(wall, files.folder / name, files, texts, false);
        for (const auto& text : texts.of)
            EXPECT_TRUE(holds(text, "the training set of rank 1 is not that of rank 0", name,
                              "'train.gxr': 40 images of 1 x 4 x 4 in 3 classes", "content"));
        Processes world({.placement = {3, 1}});  // which compares what its ranks train
        EXPECT_TRUE(
            holds(error_of([&] { train_with(world, files.folder / name, files, texts, false); }),
                  "the data source of rank 1", name, "that of rank 0",
                  "'train.gxr': 40 images of 1 x 4 x 4 in 3 classes, content"));
    }
}
TEST_F(TrainerSources, TestSetsMayDifferWhereNoneIsUsed) {
    const Files files(images());
    Processes world({.placement = {2, 1}});
    run_checked(world, [&](auto& rank) {
        const gx::RecordFile train(files.folder / "train.gxr");
        const gx::Split none = images(rank.rank() == 0 ? 40 : 20);
        OneRank local(rank);
        const Plain trainer({.batch = 3, .epochs = 1, .evaluate = false});
        EXPECT_EQ(trainer.train(local, gx::Sources{train, none.test}).epochs.size(), 1u);
    });
}
TEST_F(TrainerSources, AFileThatEndsEarlyOnOneProcessStopsAll) {
    const Files files(images());
    std::filesystem::create_directory(files.folder / "1");
    std::filesystem::copy(files.folder / "train.gxr", files.folder / "1/train.gxr");
    const Shared<Texts> texts;
    Processes world({.placement = {3, 1}});
    train_with(world, files.folder / "1/train.gxr", files, *texts, true);
    EXPECT_TRUE(holds(texts->of[1], "1/train.gxr", "ends within record", "of 40"));
    for (const int r : {0, 2}) EXPECT_TRUE(holds(texts->of[r], "rank 1 stopped first"));
}
TEST(Sources, EndEarlyWithTheErrorOfTheReader) {
    OddSource source(40);
    source.ends = 30;
    auto wall = threads(2);
    const Plain trainer({.batch = 3, .evaluate = false});
    EXPECT_TRUE(holds(error_of([&] { (void)trainer.train(wall, gx::Sources{source}); }),
                      "odd source ends at sample 30"));
    Cluster cluster(gx::sim::ethernet_10g(2), {});
    EXPECT_TRUE(holds(error_of([&] { (void)trainer.train(cluster, gx::Sources{source}); }),
                      "odd source ends at sample 30"));
}
/// Leaves the samples of a read out, once it has read so many.
struct Sparing : OddSource {
    using OddSource::OddSource;
    int whole_reads = 0;
    struct Reader final : gx::SampleReader {
        std::unique_ptr<gx::SampleReader> all;
        int left;
        Reader(std::unique_ptr<gx::SampleReader> of, int reads) : all(std::move(of)), left(reads) {}
        void read(std::span<const std::uint32_t> indices, std::span<gx::Sample> out) override {
            if (left-- > 0) all->read(indices, out);
        }
    };
    [[nodiscard]] std::unique_ptr<gx::SampleReader> open() const {
        return std::make_unique<Reader>(OddSource::open(), whole_reads);
    }
};
TEST(Sources, MayNotLeaveSamplesAsTheyWereInTheReadBefore) {
    for (const int reads : {0, 1, 3}) {
        Sparing source(40);
        source.whole_reads = reads;
        auto wall = threads(2);
        const Plain trainer({.batch = 3, .evaluate = false});
        EXPECT_TRUE(holds(error_of([&] { (void)trainer.train(wall, gx::Sources{source}); }),
                          "gx: data set 'odd': sample ",
                          " has neither pixels nor values: correct the source"))
            << reads;
    }
}
/// Counts samples that were left out, as gx::Decoded does.
struct Skipping : OddSource {
    using OddSource::OddSource;
    gx::SkippedRecords counted{}, of_index{};
    [[nodiscard]] gx::SkippedRecords skipped() const { return counted; }
    [[nodiscard]] gx::SkippedRecords left_out() const { return of_index; }
};
TEST(Sources, ThatLeaveSamplesOutAreAWarningOfTheRun) {
    Skipping train(40), test(12);
    struct Corrupts : gx::Observer {
        std::vector<std::pair<Skipping*, std::string>> files{};
        void run_begins(const gx::RunStart&) override {
            for (const auto& [source, sentence] : files) source->counted.add(sentence);
        }
    } corrupts;
    const auto warnings = [&](const gx::Sources& sources, bool evaluate = true) {
        auto wall = threads(2);
        std::string all;
        const Plain trainer({.batch = 3, .evaluate = evaluate, .observers = {&corrupts}});
        for (const std::string& warning : trainer.train(wall, sources).warnings)
            if (holds(warning, "set: ")) all += warning + "\n";
        return all;
    };
    EXPECT_EQ(warnings({train, test}), "");
    corrupts.files = {{&train, "gx: 'a.jpg' is no image."},
                      {&train, "gx: 'b.jpg' is no image."},
                      {&test, "gx: 'c.jpg' is empty."}};
    const std::string found =
        "training set: 2 times a sample that was read could not be decoded, and another one took "
        "its place. The first: gx: 'a.jpg' is no image.\n"
        "test set: 1 time a sample that was read could not be decoded, and another one took its "
        "place. The first: gx: 'c.jpg' is empty.\n";
    EXPECT_EQ(warnings({train, test}), found);
    EXPECT_EQ(warnings({train, test}), found) << "those of this run, not of the one before";
    EXPECT_EQ(warnings({train, test}, false), found.substr(0, found.find("test set")));
    corrupts.files.resize(1);
    EXPECT_TRUE(holds(warnings({train, train}), "training and test set: 1 time a sample"));
    for (int i = 0; i < 10; ++i) (void)warnings({train, test});
    EXPECT_EQ(warnings({train, test}),
              "training set: 1 time a sample that was read could not be decoded, and another one "
              "took its place.\n")
        << "sentences of the first ten are kept";

    corrupts.files.clear();
    test.of_index.add("gx: 'd.jpg' is a symbolic link to nothing.");
    EXPECT_EQ(warnings({train, test}),
              "test set: 1 file or record can't be read, and is left out of its 12 images. The "
              "first: gx: 'd.jpg' is a symbolic link to nothing.\n");
}
TEST(Sources, MustOpen) {
    struct Closed : OddSource {
        using OddSource::OddSource;
        [[nodiscard]] std::unique_ptr<gx::SampleReader> open() const { return nullptr; }
    };
    auto wall = threads(2);
    const Plain trainer({.batch = 3, .evaluate = false});
    EXPECT_TRUE(holds(error_of([&] { (void)trainer.train(wall, gx::Sources{Closed(40)}); }),
                      "data set 'odd': its open() has returned no reader"));
}
TEST(Sources, ThatThrowWhenTheyOpenAreNamedByTheirRank) {
    struct Gone : OddSource {
        using OddSource::OddSource;
        [[nodiscard]] std::unique_ptr<gx::SampleReader> open() const {
            throw std::runtime_error("the disk is gone");
        }
    };
    auto wall = threads(1);
    const Plain trainer({.batch = 3, .evaluate = false});
    EXPECT_EQ(error_of([&] { (void)trainer.train(wall, gx::Sources{Gone(40)}); }),
              "rank 0, at its start: the disk is gone");
}
TEST(Sources, AreCheckedBeforeTheRun) {
    OddSource source(3);
    source.deviation = -1;
    auto wall = threads(4);
    const std::string text =
        error_of([&] { (void)Plain({.batch = 3}).train(wall, gx::Sources{source}); });
    EXPECT_TRUE(holds(text, "training set 'odd': deviation of channel 0 is -1",
                      "4 ranks and 3 training images", "4 ranks and 0 test images"));
}

/// A loader of data sets in memory, as programs have written them before there were sources.
class Old : public gx::InMemory<> {
public:
    Old(const gx::Dataset& data, const gx::LoaderOptions& o) : InMemory(data, o) {}
};
TEST(Sources, NeedALoaderThatTakesThem) {
    const gx::Trainer<Net, gx::Ring<fp32>, gx::Warmup<gx::Poly<2>>, Old> trainer(
        {.batch = 3, .evaluate = false});
    auto wall = threads(2);
    EXPECT_EQ(trainer.train(wall, images()).epochs.size(), 1u);
    const OddSource source(40);
    EXPECT_TRUE(holds(error_of([&] { (void)trainer.train(wall, gx::Sources{source}); }), "Old",
                      "loads data sets in memory only"));
}

}  // namespace

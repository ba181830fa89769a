// Phases of a run decode straight to their size; tests of rectangular images; top-1 of all of them.
#include <gx/image/codec/recipe.hpp>

#include <cmath>

#include <gtest/gtest.h>

#include <gx/image/codec/recipe_decoder.hpp>   // RecipeDecoder
#include <gx/image/mixed.hpp>                  // Mixed
#include <gx/loader/formats/image_folder.hpp>  // ImageFolder
#include <gx/loader/prefetch.hpp>              // Prefetched
#include <gx/loader/source_part.hpp>           // SourcePart
#include <gx/model/layers.hpp>                 // Network
#include <gx/optimizer/adamw.hpp>              // AdamW
#include <gx/reducer/double_buffered.hpp>      // DoubleBuffered
#include <gx/reducer/ring.hpp>                 // Ring
#include <gx/sim/catalog/simple_clusters.hpp>  // ethernet_10g
#include <gx/sim/world/cluster.hpp>            // Cluster
#include <gx/sim/world/device.hpp>             // Device
#include <gx/testing/far/device.hpp>           // FarDevice
#include <gx/trainer/trainer.hpp>              // Trainer

#include <image/codec/make_files.hpp>  // jpeg_of
#include <trainer/small.hpp>           // threads, Folder

namespace {

using namespace gx;
using namespace gx::testing::images;
using namespace testing_support;
namespace fs = std::filesystem;

using Areas = ImageRecipe<RandomResizedCrop>;
using Cluster = sim::Cluster<reference::Device>;
using Far = gx::testing::FarWorld<gx::testing::FarDevice<reference::Device>>;

// ---- What the types promise -----------------------------------------------------------------
static_assert(ResizesImages<RecipeDecoder<Areas>>);
static_assert(ResizesImages<RecipeDecoder<ByEpoch<Areas>>>);
static_assert(!VariesShapes<RecipeDecoder<ByEpoch<Areas>>>, "training images have one shape");
static_assert(VariesShapes<RecipeDecoder<CentreRecipe>>);
static_assert(VariesShapes<RecipeDecoder<ByEpoch<CentreRecipe>>>);
static_assert(Source<SourcePart>);

struct Pooled : Network<ImageShape{3, 8, 8}, 3, Conv<4, 3, 1, 1>, BatchNorm, ReLU, GlobalAvgPool,
                        Classifier> {
    static constexpr std::string_view name = "Pooled";
};
using Training =
    Trainer<Pooled, DoubleBuffered<Ring<fp32>>, Constant, AdamW, Prefetched<InMemory<>>>;

/// Three classes of JPEGs of many sizes and aspects.
void make_images(const fs::path& folder, int count) {
    for (int i = 0; i < count; ++i) {
        const ImageSize size{24 + 7 * i % 31, 40 - 5 * i % 17};
        const fs::path below = folder / std::string(1, char('a' + i % 3));
        fs::create_directories(below);
        Pixels image = pattern(size);
        for (std::size_t p = 0; p < image.size(); p += 3) image[p + std::size_t(i) % 3] /= 2;
        const Pixels file = jpeg_of(image, size);
        write_text(below / (std::to_string(100 + i) + ".jpg"), {file.begin(), file.end()});
    }
}
struct Files {
    explicit Files(const Folder& folder)
        : train(made(folder.path / "train", 26)), test(made(folder.path / "test", 17)) {}
    static ImageFolder made(const fs::path& folder, int count) {
        make_images(folder, count);
        return ImageFolder(folder);
    }
    ImageFolder train, test;
};
Decoded<ImageFolder, RecipeDecoder<ByEpoch<Areas>>> train_of(const Files& files, int workers = 1) {
    const ByEpoch<Areas> recipe(
        {{0, {.to = {8, 8}, .crop = {.area_min = 0.35}, .seed = 4}},
         {2, {.to = {8, 8}, .crop = {.area_min = 0.7}, .flip = false, .seed = 4}}});
    return {files.train, RecipeDecoder(recipe), {.workers = workers}};
}
/// A decoder whose recipe is not compared, so that a resumed run may have another.
struct OfAnyRecipe : RecipeDecoder<Areas> {
    using RecipeDecoder::RecipeDecoder;
    std::uint64_t hash() const = delete;
};
Decoded<ImageFolder, RecipeDecoder<CentreRecipe>> test_of(const Files& files, int workers = 1) {
    return {files.test,
            RecipeDecoder(CentreRecipe({.to = {100, 100}, .shorter = 114})),
            {.workers = workers}};
}
const std::vector<Phase> phases{{0, 4, 8}, {2, 3, 12}, {4, 5, 17}};
Training::Options options(int epochs = 6) {
    Training::Options o{.epochs = epochs, .pixels = true, .seed = 3};
    o.scheduler = {.peak_rate = 0.01f};
    return o;
}

// ---- Sizes of phases ------------------------------------------------------------------------

// The oracle: runs without phases that resume each other, each with a recipe of its own size.
TEST(DecodedPhases, AreRunsOfRecipesOfTheirSize) {
    const Folder folder;
    const Files files(folder);
    const auto train = train_of(files, 2);
    const auto test = test_of(files);
    auto wall = threads(2);
    Training::Options o = options();
    o.phases = phases;
    const RunRecord phased = Training(o).train(wall, Sources{train, test});
    const RunRecord again = Training(o).train(wall, Sources{train_of(files, 1), test_of(files, 3)});
    expect_same_learning(again, phased);

    Training::Options part = options();
    part.output = folder.path / "out";
    for (std::size_t p = 0; p < phases.size(); ++p) {
        const int side = phases[p].image_side;
        part.batch = phases[p].batch;
        const Decoded a(
            files.train,
            OfAnyRecipe(p == 0 ? Areas({.to = {side, side}, .crop = {.area_min = 0.35}, .seed = 4})
                               : Areas({.to = {side, side},
                                        .crop = {.area_min = 0.7},
                                        .flip = false,
                                        .seed = 4})));
        const Decoded b(
            files.test,
            RecipeDecoder(CentreRecipe({.to = {side, side}, .shorter = int(1.14 * side)})));
        const RunRecord r = Training(part).train(wall, Sources{a, b});
        const int end = p + 1 < phases.size() ? phases[p + 1].first_epoch : part.epochs;
        part.resume = part.output / checkpoint_name(end);
        for (auto e = std::size_t(phases[p].first_epoch); e < std::size_t(end); ++e) {
            EXPECT_EQ(r.epochs[e].train_loss, phased.epochs[e].train_loss) << e;
            EXPECT_EQ(r.epochs[e].test_loss, phased.epochs[e].test_loss) << e;
            EXPECT_EQ(r.epochs[e].test_accuracy_pct, phased.epochs[e].test_accuracy_pct) << e;
        }
        if (end == part.epochs) {
            EXPECT_EQ(r.weights_hash, phased.weights_hash);
        }
    }
}
TEST(DecodedPhases, ResumeWithinAndBetweenInEveryWorld) {
    const Folder folder;
    const Files files(folder);
    const auto train = train_of(files, 2);
    const auto test = test_of(files);
    auto wall = threads(3);
    Training::Options o = options();
    o.phases = phases;
    o.output = folder.path / "out";
    const RunRecord whole = Training(o).train(wall, Sources{train, test});
    o.output.clear();
    Far far({{3, 1}, 1});
    expect_same_learning(Training(o).train(far, Sources{train, test}), whole);
    for (int epoch = 1; epoch < 6; ++epoch) {
        o.resume = folder.path / "out" / checkpoint_name(epoch);
        expect_same_learning(Training(o).train(wall, Sources{train, test}), whole);
        Cluster cluster(sim::ethernet_10g(3), {});
        expect_same_learning(Training(o).train(cluster, Sources{train, test}), whole);
    }
}
// fast.ai resizes to int(1.14 * side).
TEST(DecodedPhases, RefuseToResumeWithAnotherRecipe) {
    const Folder folder;
    const Files files(folder);
    const auto decoded = [&](const Areas::Options& recipe, const DecodeOptions& decode = {},
                             int workers = 1) {
        return Decoded(files.train, RecipeDecoder(Areas(recipe), decode), {.workers = workers});
    };
    const Areas::Options recipe{.to = {8, 8}, .seed = 4};
    const auto train = decoded(recipe);
    auto wall = threads(1);
    Training::Options o = options(2);
    o.batch = 13;
    o.evaluate = false;
    o.output = folder.path / "out";
    const RunRecord whole = Training(o).train(wall, Sources{train, {}});
    o.resume = o.output / checkpoint_name(1);
    o.output.clear();
    const RunRecord same = Training(o).train(wall, Sources{decoded(recipe, {}, 2), {}});
    EXPECT_EQ(same.weights_hash, whole.weights_hash) << "workers are no part of a recipe";
    Areas::Options crop = recipe, flip = recipe, seed = recipe;
    crop.crop.area_min = 0.35;
    flip.flip = false;
    seed.seed = 5;
    const auto refusal = [&](const auto& other) {
        return error_of([&] { (void)Training(o).train(wall, Sources{other, {}}); });
    };
    for (const auto& other :
         {decoded(crop), decoded(flip), decoded(seed), decoded(recipe, {.orient = true})})
        EXPECT_TRUE(holds(refusal(other), "cropped, augmented, mixed, normalised or",
                          "give the same training set, its decoder and their options"));
    const Mixed mixed(train, MixUp{.alpha = 0.2}, 1);
    EXPECT_TRUE(holds(refusal(mixed), "mixed"));
}
TEST(CentreRecipe, KeepsItsMarginInEverySize) {
    const CentreRecipe fast_ai({.to = {100, 100}, .shorter = 114});
    for (const int side : {8, 64, 128, 224, 288})
        EXPECT_EQ(fast_ai.resized({side, side}).options().shorter, int(side * 1.14)) << side;
    EXPECT_EQ(fast_ai.resized({288, 384}).options().shorter, 328) << "of the shorter side";
    EXPECT_EQ(fast_ai.resized({384, 288}).to(), (ImageSize{384, 288}));
}
TEST(ImageRecipe, ResizesTheCropThatHasASizeToo) {
    const ImageRecipe<MxnetRandomResizedCrop> mxnet({.to = {64, 64}, .crop = {.to = {64, 64}}});
    EXPECT_EQ(mxnet.resized({96, 96}).options().crop.to, (ImageSize{96, 96}));
    EXPECT_EQ(mxnet.resized({96, 96}).to(), (ImageSize{96, 96}));
}

// ---- Rectangles -----------------------------------------------------------------------------

/// Loss and hits of a network of these weights, image by image, in the sizes of fast.ai's batches.
struct Tested {
    double loss = 0;
    int correct = 0, shapes = 0;
};
Tested tested_by_hand(const ImageFolder& files, const Checkpoint& c, int batch, int side) {
    const auto reader = files.open();
    std::vector<ImageSize> sizes;
    CropDecoder decoder;
    const auto bytes = [&](std::uint32_t i) {
        EncodedSample s;
        reader->read({&i, 1}, {&s, 1});
        return s;
    };
    const auto count = std::uint32_t(files.info().count);
    for (std::uint32_t i = 0; i < count; ++i) sizes.push_back(decoder.open(bytes(i).bytes, ""));
    Tested out;
    ImageSize last{};
    for (const RectangularBatch& b : rectangular_batches(sizes, batch, side)) {
        out.shapes += std::exchange(last, b.to) != b.to;
        reference::Device device(
            graph<Pooled>({.input = {3, b.to.height, b.to.width}, .classes = 3}), {.batch = 1});
        device.update([&](std::span<float> p) { std::ranges::copy(c.parameters, p.begin()); });
        std::ranges::copy(c.statistics, device.statistics().begin());
        for (const std::uint32_t i : b.samples) {
            const EncodedSample s = bytes(i);
            const std::int32_t label = s.label;
            decoder.open(s.bytes, "");
            Pixels pixels(std::size_t(3 * b.to.pixels()));
            decoder.resize_box(centre_box(sizes[i], int(side * 1.14), b.to), b.to, {},
                               pixels.data());
            const DecodedOptions as{};
            std::vector<float> image;
            for (std::size_t channel = 0; channel < 3; ++channel)
                for (std::size_t p = channel; p < pixels.size(); p += 3)
                    image.push_back(float((pixels[p] / 255.0 - double{as.mean[channel]}) /
                                          double{as.deviation[channel]}));
            const ForwardReport r = device.forward(
                {.images = image, .labels = {&label, 1}, .count = 1}, Mode::evaluate);
            out.loss += r.loss_sum / count;
            out.correct += int(r.correct);
        }
    }
    return out;
}
TEST(Rectangles, AreTestedInTheSizesOfTheirBatches) {
    const Folder folder;
    const Files files(folder);
    const auto train = train_of(files);
    const Decoded test(files.test,
                       RecipeDecoder(ByEpoch<CentreRecipe>(
                           {{0, {.to = {100, 100}, .shorter = 114}},
                            {2, {.to = {100, 100}, .shorter = 114, .rectangular = true}}})),
                       {.workers = 2});
    const auto squares = test_of(files);
    for (const int ranks : {1, 2, 5}) {
        auto wall = threads(ranks);
        Training::Options o = options(4);  // two with rectangles: training goes on behind them
        o.phases = {{0, 4, 8}, {2, 3, 24}};
        o.output = folder.path / "out";
        const RunRecord r = Training(o).train(wall, Sources{train, test});
        const Checkpoint c = read_checkpoint(o.output / checkpoint_name(4),
                                             graph<Pooled>({.input = {3, 8, 8}, .classes = 3}));
        const Tested expected = tested_by_hand(files.test, c, 3, 24);
        EXPECT_GE(expected.shapes, 4);
        EXPECT_NEAR(r.epochs[3].test_loss, expected.loss, 1e-6) << ranks;
        EXPECT_DOUBLE_EQ(r.epochs[3].test_accuracy_pct, 100.0 * expected.correct / 17) << ranks;
        o.output.clear();
        const RunRecord in_squares = Training(o).train(wall, Sources{train, squares});
        EXPECT_EQ(in_squares.weights_hash, r.weights_hash) << "tests change no weight";
        EXPECT_EQ(in_squares.epochs[1].test_loss, r.epochs[1].test_loss) << "of the first phase";
        EXPECT_NE(in_squares.epochs[2].test_loss, r.epochs[2].test_loss);
        if (ranks != 2) continue;
        Cluster cluster(sim::ethernet_10g(2), {});
        expect_same_learning(Training(o).train(cluster, Sources{train, test}), r);
        Far far({{2, 1}, 1});
        expect_same_learning(Training(o).train(far, Sources{train, test}), r);
    }
}
// What a device holds at a time is no matter of what is tested.
TEST(Rectangles, AreThoseOfTheBatchThatMicroBatchesCut) {
    const Folder folder;
    const Files files(folder);
    const auto train = train_of(files);
    const Decoded test(
        files.test,
        RecipeDecoder(CentreRecipe({.to = {100, 100}, .shorter = 114, .rectangular = true})));
    Training::Options o = options(1);
    o.micro_batches = 3;
    o.phases = {{0, 6, 24}};
    for (const int ranks : {1, 2}) {
        o.output = folder.path / ("out" + std::to_string(ranks));
        auto wall = threads(ranks);
        const RunRecord r = Training(o).train(wall, Sources{train, test});
        const Checkpoint c = read_checkpoint(o.output / checkpoint_name(1),
                                             graph<Pooled>({.input = {3, 8, 8}, .classes = 3}));
        const Tested expected = tested_by_hand(files.test, c, 6, 24);
        EXPECT_GT(std::abs(tested_by_hand(files.test, c, 2, 24).loss - expected.loss), 1e-5);
        EXPECT_NEAR(r.epochs[0].test_loss, expected.loss, 1e-6) << ranks;
        EXPECT_DOUBLE_EQ(r.epochs[0].test_accuracy_pct, 100.0 * expected.correct / 17) << ranks;
    }
}
// The oracle: the tests of runs whose recipe is the same from the first epoch on. No image changes
// a weight that a rate of 1e-30 leaves as it was.
TEST(Rectangles, BeginAtTheEpochOfTheirRecipe) {
    const Folder folder;
    const Files files(folder);
    const auto train = train_of(files);
    const auto losses = [&](std::vector<ByEpoch<CentreRecipe>::From> parts,
                            std::vector<Phase> of_run) {
        Training::Options o = options(4);
        o.scheduler = {.peak_rate = 1e-30f};
        o.phases = std::move(of_run);
        const Decoded test(files.test, RecipeDecoder(ByEpoch<CentreRecipe>(std::move(parts))));
        auto wall = threads(2);
        std::vector<double> found;
        for (const auto& row : Training(o).train(wall, Sources{train, test}).epochs)
            found.push_back(row.test_loss);
        return found;
    };
    const CentreRecipe::Options square{.to = {8, 8}, .shorter = 9},
        wider{.to = {8, 8}, .shorter = 18}, rectangular{.to = {8, 8}, .rectangular = true};
    for (const CentreRecipe::Options& later : {wider, rectangular})
        for (const std::vector<Phase>& of_run : {std::vector<Phase>{}, {{0, 4, 8}, {3, 4, 8}}}) {
            const auto of_square = losses({{0, square}}, of_run);
            const auto of_later = losses({{0, later}}, of_run);
            const std::vector<double> expected{of_square[0], of_square[1], of_later[2],
                                               of_later[3]};
            EXPECT_EQ(losses({{0, square}, {2, later}}, of_run), expected);
            EXPECT_NE(of_square[2], of_later[2]);
        }
}
TEST(Rectangles, HaveEachSampleOnce) {
    const Folder folder;
    const Files files(folder);
    const Decoded test(files.test, RecipeDecoder(CentreRecipe({.rectangular = true})));
    std::vector<int> seen(17);
    for (const SampleView& v : SourceRef(test).views({3, 16, 16}, 0, 4)) {
        EXPECT_LE(v.samples.size(), 4u);
        EXPECT_EQ(std::min(v.shape.height, v.shape.width), 16);
        for (const std::uint32_t i : v.samples) ++seen[i];
    }
    EXPECT_EQ(seen, std::vector<int>(17, 1));
    EXPECT_TRUE(SourceRef(test_of(files)).views({3, 16, 16}, 0, 4).empty());
}

// ---- Faults ---------------------------------------------------------------------------------

template <class T = Training>
std::string refused(const SourceRef& train, const SourceRef& test, std::vector<Phase> of) {
    auto wall = threads(2);
    typename T::Options o{.epochs = 3, .phases = std::move(of), .pixels = true};
    return error_of([&] { (void)T(o).train(wall, Sources{train, test}); });
}
TEST(DecodedPhases, NameTheRecipeThatDoesNotFit) {
    const Folder folder;
    const Files files(folder);
    const Decoded wide(files.train, RecipeDecoder(Areas({.to = {16, 8}})));
    const auto train = train_of(files);
    const auto test = test_of(files);
    EXPECT_EQ(refused(train, test, {{0, 4, 8}}), "no error");
    EXPECT_TRUE(holds(refused(wide, test, {{0, 4, 8}, {1, 4, 16}}),
                      "phase 2 (from epoch 1: batch 4, images of 16 x 16)", "training set",
                      "images of 16 x 8 (width x height)", "two equal sides"));
    EXPECT_TRUE(holds(refused(train, wide, {{0, 4, 8}}), "phase 1", "test set"));
    const Decoded rectangles(files.test, RecipeDecoder(CentreRecipe({.rectangular = true})));
    EXPECT_TRUE(holds(refused(train, rectangles, {{0, 4, 8}, {1, 4, 4}}), "this run can't start",
                      "phase 2 (from epoch 1: batch 4, images of 4 x 4): test set '",
                      "': rectangular validation about images of 4 x 4", "at least 8 x 8"));
}
/// Its last layer is as large as the image.
struct Flat : Network<ImageShape{3, 8, 8}, 3, Classifier> {
    static constexpr std::string_view name = "Flat";
};
TEST(Rectangles, NameAnImageThatIsAlmostALine) {
    const RecipeDecoder decoder{CentreRecipe({.rectangular = true})};
    const auto trouble = [&](ImageShape shape) {
        const std::vector<ImageShape> sizes{{3, 9, 16}, shape};
        return error_of([&] { (void)decoder.views(sizes, {3, 16, 16}, 2); });
    };
    EXPECT_EQ(trouble({3, 1, 100}), "no error");
    EXPECT_TRUE(holds(trouble({3, 1, 101}), "sample 1 is an image of 101 x 1 (width x height)"));
    EXPECT_TRUE(holds(trouble({3, 400'000, 1}), "sample 1 is an image of 1 x 400000"));
}
TEST(Rectangles, NameTheParametersThatDependOnTheImageBeforeTraining) {
    const Folder folder;
    const Files files(folder);
    using T = Trainer<Flat, Ring<fp32>, Constant>;
    write_text(folder / "train/a/000.jpg", "an epoch would stop here");
    const Decoded train(ImageFolder(folder / "train"), RecipeDecoder(Areas({.to = {8, 8}})));
    const Decoded test(files.test,
                       RecipeDecoder(CentreRecipe({.to = {8, 8}, .rectangular = true})));
    EXPECT_TRUE(holds(refused<T>(train, test, {{0, 4, 24}}), "test images of", "(height x width)",
                      "Flat", "or test square images"));
}
TEST(ByEpoch, NamesRecipesOutOfOrder) {
    using Parts = std::vector<ByEpoch<Areas>::From>;
    const auto error = [](const Parts& parts) {
        return error_of([&] { (void)ByEpoch<Areas>(parts); });
    };
    EXPECT_TRUE(holds(error({}), "begins at epoch 0"));
    EXPECT_TRUE(holds(error({{1, {}}}), "begins at epoch 0"));
    EXPECT_TRUE(holds(error({{0, {}}, {5, {}}, {4, {}}}), "the recipe from epoch 4",
                      "follows that from epoch 5"));
    EXPECT_TRUE(holds(error({{0, {}}, {0, {}}}), "follows that from epoch 0"));
    EXPECT_TRUE(holds(error({{0, {}}, {2, {.to = {8, 8}}}}), "has images of 8 x 8",
                      "the first one of 224 x 224"));
    EXPECT_EQ(error({{0, {}}, {2, {}}}), "no error");
}

}  // namespace

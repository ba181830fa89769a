#include <gx/trainer/checkpoint.hpp>

#include <bit>      // bit_cast
#include <cmath>    // isnan
#include <fstream>  // a changed file
#include <limits>   // largest integer

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>  // another writer
#include <rapidcheck/gtest.h>

#include <gx/model/cifar_resnet.hpp>   // statistics
#include <gx/model/concept.hpp>        // graph
#include <gx/model/lenet.hpp>          // another network
#include <gx/trainer/rows.hpp>         // rows_text
#include <gx/trainer/safetensors.hpp>  // write_safetensors
#include <trainer/runs.hpp>            // run
#include <trainer/small.hpp>           // Folder, error_of

namespace {

using namespace testing_support;

/// Numbers that tell their place.
std::vector<float> counted(std::int64_t count, float from) {
    std::vector<float> v(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = from + static_cast<float>(i);
    return v;
}
/// Of three epochs, the last of which ends at step 1000.
gx::RunRecord three_epochs() {
    gx::RunRecord r = run();
    r.epochs.resize(3);
    for (int e = 0; e < 3; ++e)
        r.epochs[std::size_t(e)].epoch = e, r.epochs[std::size_t(e)].step = 334 * e + 332;
    return r;
}
std::string rows() { return rows_text(three_epochs()); }
gx::Checkpoint full(const gx::Graph& graph) {
    const std::int64_t n = graph.parameter_elements();
    return {.model = std::string(graph.name.view()),
            .composition = "C",
            .seed = ~std::uint64_t{0},
            .ranks = 2,
            .batch = 4,
            .images = 500,
            .epoch = 3,
            .step = 1000,
            .updates = 990,
            .skips_in_a_row = 3,
            .clock = "virtual",
            .timed_as = "ResNet50, 64 images a GPU and step",
            .seconds = 0.1,
            .undisturbed_seconds = 1.0 / 3,
            .dollars = 0.7,
            .timed_images = 1500 * 0.3,
            .loss_scale = {.scale = 512, .good_steps = 77},
            .parameters = counted(n, 1),
            .statistics = counted(graph.statistic_elements(), 0.5f),
            .optimizer = {{"m", counted(n, -9)}, {"v", counted(n, 9)}},
            .scalars = {{"power", 0.1 + 0.2}, {"tiny", -0x1p-1060}},
            .pending = {{998, 1024, 0.1f, counted(n, 2)}, {999, 512, 0.05f, counted(n, 3)}},
            .reducer = {{"residual", false, {{1, 2, 3}, {4, 5, 6}}}, {"count", true, {{7}}}},
            .options = {{"scheduler.peak_rate", "0.1"}, {"optimizer.nesterov", "1"}},
            .notes = {"resumed \"once\".", "and again."},
            .record = rows()};
}

// ---- What is written comes back -----------------------------------------------------

TEST(CheckpointNumber, IsOfTheNamesThatRunsGive) {
    for (const int n : {1, 9, 10'000, std::numeric_limits<int>::max()}) {
        const auto of = gx::checkpoint_number(gx::checkpoint_name(n));
        ASSERT_TRUE(of) << n;
        EXPECT_TRUE(of->of_epoch);
        EXPECT_EQ(of->number, n);
    }
    for (const std::int64_t n : {std::int64_t{1}, std::int64_t{1} << 40}) {
        const auto of = gx::checkpoint_number(gx::step_checkpoint_name(n));
        ASSERT_TRUE(of) << n;
        EXPECT_FALSE(of->of_epoch);
        EXPECT_EQ(of->number, n);
    }
    for (const char* other :
         {"", "epoch-", "epoch-.safetensors", "epoch-0000.safetensors", "epoch-1.safetensors",
          "epoch-00001.safetensors", "epoch--001.safetensors", "epoch-0001.safetensors.tmp",
          "epoch-2147483648.safetensors", "step-0001.safetensors", "my-epoch-0001.safetensors",
          "step-99999999999999999999.safetensors"})
        EXPECT_FALSE(gx::checkpoint_number(other)) << other;
}
TEST(Checkpoint, GivesBackAllOfIt) {
    const Folder folder;
    const gx::Graph graph = gx::graph<gx::CifarResNet<8>>();
    const gx::Checkpoint a = full(graph);
    ASSERT_GT(a.statistics.size(), 0u);
    gx::write_checkpoint(folder / "c", graph, a);
    const gx::Checkpoint b = gx::read_checkpoint(folder / "c", graph);
    EXPECT_EQ(b.model, a.model);
    EXPECT_EQ(b.composition, a.composition);
    EXPECT_EQ(b.seed, a.seed);
    EXPECT_EQ(b.epoch, a.epoch);
    EXPECT_EQ(b.step, a.step);
    EXPECT_EQ(b.ranks, a.ranks);
    EXPECT_EQ(b.batch, a.batch);
    EXPECT_EQ(b.images, a.images);
    EXPECT_EQ(b.updates, a.updates);
    EXPECT_EQ(b.skips_in_a_row, a.skips_in_a_row);
    EXPECT_EQ(b.clock, a.clock);
    EXPECT_EQ(b.timed_as, a.timed_as);
    EXPECT_EQ(b.seconds, a.seconds);
    EXPECT_EQ(b.dollars, a.dollars);
    EXPECT_EQ(b.timed_images, a.timed_images);
    EXPECT_EQ(b.options, a.options);
    EXPECT_EQ(b.notes, a.notes);
    EXPECT_EQ(b.undisturbed_seconds, a.undisturbed_seconds);
    EXPECT_EQ(b.scalars, a.scalars);
    EXPECT_EQ(b.loss_scale.scale, a.loss_scale.scale);
    EXPECT_EQ(b.loss_scale.good_steps, a.loss_scale.good_steps);
    EXPECT_EQ(b.parameters, a.parameters);
    EXPECT_EQ(b.statistics, a.statistics);
    EXPECT_EQ(b.optimizer, a.optimizer);
    ASSERT_EQ(b.pending.size(), 2u);
    for (std::size_t i = 0; i < 2; ++i) {
        EXPECT_EQ(b.pending[i].index, a.pending[i].index);
        EXPECT_EQ(b.pending[i].loss_scale, a.pending[i].loss_scale);
        EXPECT_EQ(b.pending[i].rate, a.pending[i].rate);
        EXPECT_EQ(b.pending[i].values, a.pending[i].values);
    }
    EXPECT_EQ(b.reducer, a.reducer);
    EXPECT_EQ(b.record, a.record);
}
TEST(Checkpoint, ASumOverTwoClocksIsNaN) {
    const Folder folder;
    const gx::Graph graph = gx::graph<gx::LeNet>();
    gx::Checkpoint a = full(graph);
    a.clock = gx::mixed_clocks;
    a.seconds = a.dollars = std::numeric_limits<double>::quiet_NaN();
    gx::write_checkpoint(folder / "c", graph, a);
    const gx::Checkpoint b = gx::read_checkpoint(folder / "c", graph);
    EXPECT_EQ(b.clock, "mixed");
    EXPECT_TRUE(std::isnan(b.seconds) && std::isnan(b.dollars));
}
TEST(Checkpoint, ScalarsMayBeWhatJsonHasNoNumberFor) {
    const Folder folder;
    const gx::Graph graph = gx::graph<gx::LeNet>();
    gx::Checkpoint a = full(graph);
    constexpr double inf = std::numeric_limits<double>::infinity();
    a.scalars = {
        {"best", inf}, {"worst", -inf}, {"none", std::numeric_limits<double>::quiet_NaN()}};
    gx::write_checkpoint(folder / "c", graph, a);
    const gx::Checkpoint b = gx::read_checkpoint(folder / "c", graph);
    ASSERT_EQ(b.scalars.size(), 3u);
    EXPECT_EQ(b.scalars[0].value, inf);
    EXPECT_EQ(b.scalars[1].value, -inf);
    EXPECT_TRUE(std::isnan(b.scalars[2].value));
}
/// The name of the field that holds the sum may be the bit that changed.
TEST(Checkpoint, NeedsItsSum) {
    const Folder folder;
    const gx::Graph graph = gx::graph<gx::LeNet>();
    gx::write_checkpoint(folder / "c", graph, full(graph));
    std::string text = read_text(folder / "c");
    const auto at = text.find("\"gx.crc32\"");
    ASSERT_NE(at, text.npos);
    text[at + 1] = 'G';
    std::ofstream(folder / "c", std::ios::binary) << text;
    EXPECT_TRUE(holds(error_of([&] { (void)gx::read_checkpoint(folder / "c", graph); }), "/c'",
                      "no field 'gx.crc32' in its metadata", "take an earlier checkpoint"));
}
TEST(Checkpoint, WeightsHaveTheirPlainNamesAndShapes) {
    const Folder folder;
    const gx::Graph graph = gx::graph<gx::LeNet>();
    gx::write_checkpoint(folder / "c", graph, full(graph));
    const auto tensors = gx::read_safetensors(folder / "c").tensors;
    using Shape = std::vector<std::int64_t>;
    EXPECT_EQ(tensors.at("conv1.weight").shape, (Shape{6, 1, 5, 5}));
    EXPECT_EQ(tensors.at("conv1.bias").shape, (Shape{6}));
    EXPECT_EQ(tensors.at("fc3.weight").shape, (Shape{10, 84}));
    EXPECT_TRUE(tensors.contains("optimizer.v.fc3.weight"));
}

// ---- Bad files ----------------------------------------------------------------------

TEST(Checkpoint, SaysWhatIsWrong) {
    const Folder folder;
    const gx::Graph graph = gx::graph<gx::LeNet>(), other = gx::graph<gx::CifarResNet<8>>();
    const auto told = [&](const gx::Graph& wanted) {
        return error_of([&] { (void)gx::read_checkpoint(folder / "c", wanted); });
    };
    gx::write_checkpoint(folder / "c", graph, full(graph));
    EXPECT_EQ(told(graph), "no error");
    EXPECT_TRUE(holds(told(other), "/c': it is of model 'LeNet', and this run trains '",
                      "Resume with the model that wrote it."));
    gx::Graph sized = graph;
    sized.name = "LeNet<5>";
    EXPECT_TRUE(holds(told(sized), "is of model 'LeNet', and this run trains 'LeNet<5>'",
                      "an older gx, which left its sizes out of the name", "with that gx."));

    gx::Graph resized = gx::graph<gx::LeNet>({.classes = 12});
    EXPECT_TRUE(
        holds(told(resized), "tensor 'fc3.weight' has 840 elements where 1008 were expected"));

    gx::Checkpoint c = full(graph);
    c.record = "{}";
    gx::write_checkpoint(folder / "c", graph, c);
    EXPECT_TRUE(holds(told(graph), "/c': its metadata fields 'gx' and 'record' are not as gx",
                      "breakdown"));
    c.record = "not JSON";
    gx::write_checkpoint(folder / "c", graph, c);
    EXPECT_TRUE(holds(told(graph), "/c': its metadata fields"));

    gx::write_safetensors(folder / "c", {});
    EXPECT_TRUE(holds(told(graph), "no field 'gx' in its metadata", "weights only"));
    gx::write_safetensors(folder / "c", {}, {{"gx", R"({"format":3,"model":"LeNet"})"}});
    EXPECT_TRUE(holds(told(graph), "not as gx writes them", "field 'composition' is missing"));
    gx::write_safetensors(
        folder / "c", {},
        {{"gx", R"({"format":3,"model":"LeNet","composition":"C","seed":1,"ranks":1,"batch":1,)"
                R"("images":1,"epoch":1,"step":1,"updates":1,"skips_in_a_row":0,"clock":"wall",)"
                R"("timed_as":"","seconds":1,"dollars":0,"timed_images":1,)"
                R"("undisturbed_seconds":0,"loss_scale":1,"good_steps":0})"}});
    EXPECT_TRUE(holds(told(graph), "tensor 'conv1.weight' is missing"));
}
TEST(Checkpoint, SaysWhatToDoWithAnotherFormat) {
    const Folder folder;
    const gx::Graph graph = gx::graph<gx::LeNet>();
    const auto told = [&](const char* state) {
        gx::write_safetensors(folder / "c", {}, {{"gx", state}});
        return error_of([&] { (void)gx::read_checkpoint(folder / "c", graph); });
    };
    for (const char* old : {"1", "2"})
        EXPECT_TRUE(holds(told((R"({"model":"LeNet","format":)" + std::string(old) + "}").c_str()),
                          std::string("/c': it has file format ") + old, "reads format 3",
                          "Finish that run with the version of gx that wrote it"));
    EXPECT_TRUE(holds(told(R"({"format":5})"), "it has file format 5", "the newer version of gx"));
    EXPECT_TRUE(holds(told(R"({})"), "/c'", "field 'format' is missing"));
}

// ---- Files from outside -------------------------------------------------------------

/// A checkpoint whose metadata field `gx` is `state`, with a fitting checksum.
void write_state(const std::filesystem::path& path, const gx::SafetensorsFile& file,
                 const std::string& state) {
    std::vector<gx::NamedTensor> tensors;
    for (const auto& [name, t] : file.tensors) tensors.push_back({name, t.shape, t.values});
    gx::write_safetensors(path, tensors, {{"gx", state}, {"record", file.metadata.at("record")}});
}
TEST(Checkpoint, EveryFieldIsValidated) {
    const Folder folder;
    const gx::Graph graph = gx::graph<gx::LeNet>();
    gx::write_checkpoint(folder / "whole", graph, full(graph));
    const gx::SafetensorsFile file = gx::read_safetensors(folder / "whole");
    const auto state = nlohmann::ordered_json::parse(file.metadata.at("gx"));
    const auto told = [&](const auto& change) {
        auto j = state;
        change(j);
        write_state(folder / "c", file, j.dump());
        return error_of([&] { (void)gx::read_checkpoint(folder / "c", graph); });
    };
    EXPECT_EQ(told([](auto&) {}), "no error");
    const auto set = [&](const char* field, const nlohmann::ordered_json& value) {
        return told([&](auto& j) { j[field] = value; });
    };
    constexpr auto huge = std::numeric_limits<std::int64_t>::max();
    for (const std::int64_t bad : {std::int64_t{-2}, std::int64_t{0}, huge})
        for (const char* field : {"ranks", "batch", "images", "epoch", "step"})
            EXPECT_TRUE(holds(set(field, bad), "/c'", std::string("field '") + field + "'")) << bad;
    EXPECT_TRUE(holds(set("step", 3 * 500 + 1), "field 'step' is 1501 where 3 to 1500"));
    EXPECT_TRUE(holds(set("step", 2), "field 'step' is 2"));
    EXPECT_TRUE(holds(set("updates", 1001), "field 'updates' is 1001"));
    EXPECT_TRUE(holds(set("skips_in_a_row", -1), "field 'skips_in_a_row' is -1"));
    EXPECT_TRUE(holds(set("good_steps", -1), "field 'good_steps' is -1"));
    for (const double bad : {-1.0, 0.0, 1e39, 1e-60})
        EXPECT_TRUE(holds(set("loss_scale", bad), "field 'loss_scale' is ")) << bad;
    EXPECT_TRUE(holds(set("loss_scale", nullptr), "field 'loss_scale' is not a number"));
    EXPECT_TRUE(holds(set("seconds", -1), "field 'seconds' is -1"));
    EXPECT_TRUE(holds(set("seconds", nullptr), "field 'seconds' is nan"));
    EXPECT_TRUE(holds(set("clock", ""), "field 'clock' is empty"));
    EXPECT_TRUE(holds(set("clock", "mixed"), "field 'seconds' is 0.1 where null"));
    EXPECT_TRUE(holds(set("dollars", -1), "field 'dollars' is -1"));
    EXPECT_TRUE(holds(set("timed_images", -1), "field 'timed_images' is -1"));
    EXPECT_TRUE(holds(set("options", 3), "field 'options'"));
    EXPECT_TRUE(holds(set("notes", 3), "field 'notes'"));
    EXPECT_TRUE(holds(set("undisturbed_seconds", -1), "field 'undisturbed_seconds'"));
    EXPECT_TRUE(holds(told([](auto& j) { j["reducer"][1]["name"] = "residual"; }),
                      "field 'reducer' is 'residual' twice where each name once was expected"));
    EXPECT_TRUE(holds(told([](auto& j) { j["reducer"][0]["name"] = "x"; }),
                      "tensor 'reducer.x.0' is missing"));
    EXPECT_TRUE(holds(told([](auto& j) { j["reducer"][1]["replicated"] = false; }),
                      "tensor 'reducer.count.1' is missing"));
    EXPECT_TRUE(holds(told([](auto& j) { j["reducer"][1]["replicated"] = 1; }),
                      "field 'replicated' is not"));
    EXPECT_TRUE(holds(set("optimizer", {"m", "m"}), "field 'optimizer' is 'm' twice"));
    EXPECT_TRUE(holds(set("optimizer", {"x"}), "tensor 'optimizer.x.conv1.weight' is missing"));
    for (const std::uint64_t bad :
         {std::uint64_t{8}, std::uint64_t{997}, std::uint64_t{1000}, ~std::uint64_t{0}})
        EXPECT_TRUE(holds(told([&](auto& j) { j["pending"][0]["gradient"] = bad; }),
                          "field 'gradient' is " + std::to_string(bad),
                          "where 998, number 1 of the last 2 before step 1000, was expected"));
    EXPECT_TRUE(holds(told([](auto& j) { j["pending"][1]["loss_scale"] = 1e39; }),
                      "field 'loss_scale' is 1e+39"));
    for (const double bad : {-0.1, 1e39})
        EXPECT_TRUE(holds(told([&](auto& j) { j["pending"][1]["rate"] = bad; }), "field 'rate' is ",
                          "a finite number from 0 on was expected"));
    EXPECT_TRUE(holds(told([](auto& j) { j["pending"][1].erase("rate"); }),
                      "no field 'rate' of its gradients in flight. Take a checkpoint of this "
                      "version"));
}

TEST(Checkpoint, HasARecordThatARunCanHaveMade) {
    const Folder folder;
    const gx::Graph graph = gx::graph<gx::LeNet>();
    const auto told = [&](const auto& change) {
        gx::RunRecord r = three_epochs();
        change(r);
        gx::Checkpoint c = full(graph);
        c.record = rows_text(r);
        gx::write_checkpoint(folder / "c", graph, c);
        return error_of([&] { (void)gx::read_checkpoint(folder / "c", graph); });
    };
    EXPECT_EQ(told([](auto&) {}), "no error");
    for (const int bad : {-7, 1001})
        EXPECT_TRUE(holds(told([&](auto& r) { r.skipped_steps = bad; }),
                          "field 'skipped_steps' is " + std::to_string(bad)));
    EXPECT_TRUE(holds(told([](auto& r) { r.epochs[1].epoch = -5; }), "'epochs.epoch' is -5"));
    for (const std::int64_t bad : {std::int64_t{332}, std::int64_t{1'000'000'000'000}})
        EXPECT_TRUE(holds(told([&](auto& r) { r.epochs[1].step = bad; }),
                          "'epochs.step' is " + std::to_string(bad) + " where 333 to 1000"));
    EXPECT_TRUE(holds(told([](auto& r) { r.epochs[2].step = 999; }),
                      "'epochs.step' is 999 where 1000 was expected"));
    EXPECT_TRUE(holds(told([](auto& r) { r.epochs[0].test_accuracy_pct = 1e9; }),
                      "'accuracy_pct' is 1000000000"));
    EXPECT_TRUE(holds(told([](auto& r) { r.steps = {{.step = -3}}; }), "'steps.step' is -3"));
    EXPECT_TRUE(holds(told([](auto& r) { r.steps = {{.step = 5}, {.step = 5}}; }),
                      "'steps.step' is 5 where 6 to 999"));
}

TEST(Checkpoint, CountsTheImagesOfItsSteps) {
    const Folder folder;
    const gx::Graph graph = gx::graph<gx::LeNet>();
    const auto told = [&](std::vector<double> sums) {
        gx::RunRecord r = three_epochs();
        r.steps = {{.step = 1000}, {.step = 1001}};
        gx::Checkpoint c = full(graph);
        c.step = 1002;
        c.pending.clear();
        c.within = {.images = 40, .sums = std::move(sums), .rank_images = {20, 20}};
        c.within.statistics.resize(2);
        c.record = rows_text(r);
        gx::write_checkpoint(folder / "c", graph, c);
        return error_of([&] { (void)gx::read_checkpoint(folder / "c", graph); });
    };
    EXPECT_EQ(told({30, 3, 20, 28, 5, 20}), "no error");
    EXPECT_EQ(told({30, 3, 10, 28, 5, 10}), "no error") << "the images of lost ranks";
    EXPECT_TRUE(holds(told({30, 3, -1000, 28, 5, 20}), "field 'sums' is 3 where 0 to -1000 hits"));
    EXPECT_TRUE(holds(told({30, 21, 20, 28, 5, 20}), "field 'sums' is 21 where 0 to 20 hits"));
    EXPECT_TRUE(holds(told({30, 3, 20, 28, 5, 1e9}), "field 'sums' is ", "40 images at most"));
}

/// Sums of fields that can be any whole number.
TEST(Checkpoint, WithinAnEpochCountsBelowTheLargestInteger) {
    const Folder folder;
    const gx::Graph graph = gx::graph<gx::LeNet>();
    gx::Checkpoint c = full(graph);
    gx::RunRecord r = three_epochs();
    r.steps.clear();
    c.record = rows_text(r);
    c.step = 1002;
    c.pending.clear();
    c.within = {.images = 40, .rank_images = {20, 20}};
    c.within.statistics.resize(2);
    gx::write_checkpoint(folder / "whole", graph, c);
    const gx::SafetensorsFile file = gx::read_safetensors(folder / "whole");
    const auto state = nlohmann::ordered_json::parse(file.metadata.at("gx"));
    const auto told = [&](const auto& change) {
        auto j = state;
        change(j);
        write_state(folder / "c", file, j.dump());
        return error_of([&] { (void)gx::read_checkpoint(folder / "c", graph); });
    };
    EXPECT_EQ(told([](auto&) {}), "no error");
    constexpr auto huge = std::numeric_limits<std::int64_t>::max();
    const auto images = [&](std::vector<std::int64_t> of_ranks) {
        return told([&](auto& j) { j["within"]["rank_images"] = of_ranks; });
    };
    EXPECT_TRUE(holds(images({20, huge}),
                      "field 'rank_images' is 9223372036854775807 where 0 to 20 "
                      "was expected"));
    EXPECT_TRUE(holds(images({-1, 41}), "field 'rank_images' is -1 where 0 to 40"));
    EXPECT_TRUE(holds(images({20, 19}), "field 'rank_images' is 39 where 40 of 2 ranks"));
    EXPECT_TRUE(holds(images({40}), "field 'rank_images' is 40 where 40 of 2 ranks"));
    EXPECT_TRUE(holds(told([](auto& j) { j["epoch"] = std::numeric_limits<int>::max(); }),
                      "field 'epoch' is 2147483647 where 0 to 2147483646 was expected"));
    EXPECT_TRUE(holds(told([](auto& j) { j["epoch"] = -1; }), "field 'epoch' is -1 where 0 to"));
}

/// Any field of the header, at any depth, replaced by some other value: read or refused by name.
RC_GTEST_PROP(Checkpoint, ARandomFieldIsReadOrRefused, ()) {
    static const gx::Graph graph = gx::graph<gx::LeNet>();
    static const auto path =
        std::filesystem::temp_directory_path() / ("gx_fields_" + std::to_string(getpid()));
    static const gx::SafetensorsFile file = [] {
        gx::write_checkpoint(path, graph, full(graph));
        return gx::read_safetensors(path);
    }();
    auto state = nlohmann::ordered_json::parse(file.metadata.at("gx")).flatten();
    auto field = std::next(state.begin(), *rc::gen::inRange<int>(0, int(state.size())));
    const auto bits = *rc::gen::arbitrary<std::int64_t>();
    const std::vector<nlohmann::ordered_json> others{bits,
                                                     std::uint64_t(bits),
                                                     std::bit_cast<double>(bits),
                                                     -1,
                                                     0,
                                                     1,
                                                     2,
                                                     1e39,
                                                     "text",
                                                     true,
                                                     nullptr,
                                                     nlohmann::ordered_json::array({1}),
                                                     nlohmann::ordered_json::object()};
    *field = others[*rc::gen::inRange<std::size_t>(0, others.size())];
    std::string text;
    try {
        text = state.unflatten().dump();
    } catch (const nlohmann::json::exception&) {
        RC_DISCARD("not a document");
    }
    write_state(path, file, text);
    const std::string error = error_of([&] { (void)gx::read_checkpoint(path, graph); });
    RC_ASSERT(error == "no error" || error.find(path.string()) != error.npos);
    std::filesystem::remove(path);
}

}  // namespace

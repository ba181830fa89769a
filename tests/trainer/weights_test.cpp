#include <gx/trainer/weights.hpp>  // first, so the header is seen to stand alone

#include <cstring>  // memcpy
#include <limits>   // quiet_NaN
#include <utility>  // exchange

#include <gtest/gtest.h>

#include <gx/core/element.hpp>         // fp16, bf16
#include <gx/model/inception.hpp>      // InceptionV3
#include <gx/model/layers.hpp>         // Network
#include <gx/model/resnet.hpp>         // ResNet18, ResNet34
#include <gx/trainer/safetensors.hpp>  // write_safetensors
#include <support/files.hpp>           // Folder, error_of, holds

namespace {

using namespace testing_support;
using gx::Weights;

struct Small
    : gx::Network<gx::ImageShape{2, 4, 4}, 3, gx::Named<"conv", gx::Conv<4, 1>>,
                  gx::Named<"bn", gx::BatchNorm>, gx::ReLU, gx::Named<"fc", gx::Classifier>> {
    static constexpr std::string_view name = "Small";
};

/// Weights that are all different.
Weights counted(const gx::Graph& g) {
    Weights w = gx::initial_weights(g, 3);
    float next = 0.5f;
    for (auto* flat : {&w.parameters, &w.statistics})
        for (float& x : *flat) x = next += 0.25f;
    return w;
}
Weights zeros(const gx::Graph& g) {
    return {std::vector<float>(std::size_t(g.parameter_elements())),
            std::vector<float>(std::size_t(g.statistic_elements()))};
}
std::string trouble(const gx::InitialWeights& from, const gx::Graph& g) {
    return error_of([&] { (void)gx::read_weights(from, g, zeros(g)); });
}
/// The tensors of a file, to be changed and written again.
struct Edited {
    gx::SafetensorsFile file;
    explicit Edited(const std::filesystem::path& path) : file(gx::read_safetensors(path)) {}
    gx::SafetensorsFile::Tensor& operator[](const char* name) { return file.tensors[name]; }
    void write(const std::filesystem::path& path) const {
        std::vector<gx::NamedTensor> all;
        for (const auto& [name, t] : file.tensors) all.push_back({name, t.shape, t.values});
        gx::write_safetensors(path, all);
    }
};

// ---- Cases worked by hand -----------------------------------------------------------
TEST(Weights, HaveThePyTorchShapesAndNames) {
    const Folder folder;
    const gx::Graph g = gx::graph<Small>();
    gx::write_weights(folder / "f", g, counted(g), {{"epochs", "9"}});
    const auto file = gx::read_safetensors(folder / "f");
    EXPECT_EQ(file.metadata.at("epochs"), "9");
    EXPECT_EQ(file.metadata.at("model"), "Small");
    using Shape = std::vector<std::int64_t>;
    EXPECT_EQ(file.tensors.at("conv.weight").shape, (Shape{4, 2, 1, 1}));
    EXPECT_EQ(file.tensors.at("fc.weight").shape, (Shape{3, 64}));
    EXPECT_EQ(file.tensors.at("fc.bias").shape, (Shape{3}));
    EXPECT_EQ(file.tensors.at("bn.running_var").values,
              (std::vector<float>{54.5, 54.75, 55, 55.25}))
        << "the first is 0.5 + 0.25 * (8 + 8 + 192 + 3 parameters + 4 means + 1)";
    EXPECT_EQ(file.tensors.size(), 7u);
    EXPECT_EQ(gx::read_weights(folder / "f", g), counted(g));
}

TEST(Weights, OfTheLastLinearLayerMayBeginSmall) {
    const gx::Graph g = gx::graph<Small>();
    const Weights plain = gx::initial_weights(g, 3), small = gx::initial_weights(g, 3, 0.01);
    EXPECT_EQ(plain.statistics, small.statistics);
    const double he = std::sqrt(2.0 / 64);
    for (const gx::Parameter& p : g.parameters)
        for (auto i = std::size_t(p.offset); i < std::size_t(p.offset + p.count); ++i) {
            if (p.name.view() == "fc.weight")
                EXPECT_FLOAT_EQ(small.parameters[i], float(plain.parameters[i] * 0.01 / he));
            else EXPECT_EQ(small.parameters[i], plain.parameters[i]) << p.name.view();
        }
    for (const double bad : {-0.01, std::nan(""), double(INFINITY)})
        EXPECT_TRUE(holds(error_of([&] { (void)gx::initial_weights(g, 3, bad); }),
                          "weights.last_deviation is ", ": expected a number from 0 on"));
    gx::Graph without = g;
    std::erase_if(without.ops, [](const gx::Op& op) { return op.kind == gx::OpKind::linear; });
    EXPECT_TRUE(holds(error_of([&] { (void)gx::initial_weights(without, 3, 0.01); }),
                      "weights.last_deviation: Small has no linear layer"));
}

TEST(Weights, KeepFreshLayersAsTheyStart) {
    const Folder folder;
    const gx::Graph of_ten = gx::graph<Small>({.classes = 10}), of_three = gx::graph<Small>();
    gx::write_weights(folder / "f", of_ten, counted(of_ten));
    const Weights start = gx::initial_weights(of_three, 7);
    const Weights w = gx::read_weights({.file = folder / "f", .fresh = {"fc"}}, of_three, start);
    const Weights theirs = counted(of_ten);
    EXPECT_TRUE(std::equal(theirs.parameters.begin(), theirs.parameters.begin() + 16,
                           w.parameters.begin()));
    EXPECT_TRUE(std::equal(start.parameters.begin() + 16, start.parameters.end(),
                           w.parameters.begin() + 16));
    EXPECT_EQ(w.statistics.size(), 8u);
    EXPECT_EQ(w.statistics[0], theirs.statistics[0]);
}

TEST(Weights, AreTheAverageThatWasTestedAlsoBesideFreshLayers) {
    const Folder folder;
    const gx::Graph g = gx::graph<Small>();
    const Weights w = counted(g);
    std::vector<std::vector<float>> values;
    std::vector<gx::NamedTensor> tensors;
    const auto shapes = gx::tensor_shapes(g);
    const auto write = [&](int updates, std::size_t averages, std::size_t count) {
        values.clear(), tensors.clear();
        values.reserve(2 * g.parameters.size() + g.statistics.size());
        for (std::size_t p = 0; p < count; ++p)
            for (const bool average : {false, true}) {
                if (average && p >= averages) continue;
                const gx::Parameter& of = g.parameters[p];
                auto& flat = values.emplace_back(w.parameters.begin() + of.offset,
                                                 w.parameters.begin() + of.offset + of.count);
                for (float& x : flat) x += average ? 100 : 0;
                const std::string name = average ? "optimizer.average." : "";
                tensors.push_back({name + std::string(of.name.view()), shapes[p], flat});
            }
        for (const gx::Statistic& s : g.statistics)
            tensors.push_back({std::string(s.name.view()),
                               {s.count},
                               values.emplace_back(w.statistics.begin() + s.offset,
                                                   w.statistics.begin() + s.offset + s.count)});
        gx::write_safetensors(folder / "f", tensors,
                              {{"gx", "{\"updates\":" + std::to_string(updates) + "}"}});
    };
    const std::size_t all = g.parameters.size(), without_last = all - 2;
    const auto first = [&](std::vector<std::string> fresh) {
        return gx::read_weights({.file = folder / "f", .fresh = std::move(fresh)}, g, zeros(g))
            .parameters[0];
    };
    write(2, all, all);
    EXPECT_EQ(first({}), w.parameters[0] + 100);
    EXPECT_EQ(first({"fc"}), w.parameters[0] + 100);
    write(0, all, all);
    EXPECT_EQ(first({}), w.parameters[0]) << "no update was averaged";
    write(2, without_last, without_last);  // of a network without "fc"
    EXPECT_EQ(first({"fc"}), w.parameters[0] + 100);
    write(2, 0, all);
    EXPECT_EQ(first({"fc"}), w.parameters[0]);
}

/// A file of one tensor of `element`, whose values are `bytes`.
std::string file_of(const std::string& element, const std::string& shape,
                    const std::string& bytes) {
    const std::string header = R"({"t":{"dtype":")" + element + R"(","shape":)" + shape +
                               R"(,"data_offsets":[0,)" + std::to_string(bytes.size()) + "]}}";
    const std::uint64_t length = header.size();
    return std::string(reinterpret_cast<const char*>(&length), 8) + header + bytes;
}
template <class T>
std::string bytes_of(const std::vector<T>& values) {
    return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

TEST(Weights, ComeFromFilesOfOtherElements) {
    const Folder folder;
    const std::vector<float> values{1.5f, -0.25f, 3};
    std::vector<std::uint16_t> half, brain;
    for (const float x : values) {
        half.push_back(gx::fp16::encode(x));
        brain.push_back(gx::bf16::encode(x));
    }
    const auto read = [&](const std::string& text) {
        write_text(folder / "f", text);
        return gx::read_safetensors(folder / "f").tensors.at("t");
    };
    EXPECT_EQ(read(file_of("F16", "[3]", bytes_of(half))).values, values);
    EXPECT_EQ(read(file_of("BF16", "[3]", bytes_of(brain))).values, values);
    EXPECT_EQ(read(file_of("F64", "[2]", bytes_of(std::vector{0.1, 1e-60}))).values,
              (std::vector<float>{0.1f, 0}));
    const auto number = read(file_of("I64", "[]", bytes_of(std::vector<std::int64_t>{7})));
    EXPECT_TRUE(number.values.empty());
    EXPECT_EQ(number.element, "I64");
    EXPECT_TRUE(holds(error_of([&] { (void)read(file_of("F8", "[3]", "abc")); }),
                      "field 'dtype' of tensor 't' is 'F8', which gx does not read"));
    EXPECT_TRUE(holds(error_of([&] { (void)read(file_of("F16", "[3]", "abcd")); }),
                      "does not fit its shape"));
}

// ---- Weights of another network -----------------------------------------------------
TEST(Weights, NameWhatDiffersFirst) {
    const Folder folder;
    const gx::Graph g18 = gx::graph<gx::ResNet18>({.input = {3, 32, 32}});
    const gx::Graph g34 = gx::graph<gx::ResNet34>({.input = {3, 32, 32}});
    const gx::Graph g50 = gx::graph<gx::ResNet50>({.input = {3, 32, 32}});
    gx::write_weights(folder / "f", g34, zeros(g34));
    EXPECT_TRUE(holds(trouble({.file = folder / "f"}, g18),
                      "are not those of network 'ResNet18': 'layer1.2.bn1.bias' is none of its "
                      "tensors; 'layer1.2.bn1.running_mean' is none of its tensors",
                      "and 76 more. Give weights of this network"));
    EXPECT_EQ(trouble({.file = folder / "f", .whole_file = false}, g18), "no error")
        << "ResNet-34 begins its stages as ResNet-18 does";
    EXPECT_TRUE(holds(trouble({.file = folder / "f"}, g50),
                      "'layer1.0.conv1.weight' has the shape 64 x 64 x 3 x 3 where 64 x 64 x 1 x 1 "
                      "was expected; 'layer1.0.conv3.weight' is missing"));
    const gx::Graph ten = gx::graph<gx::ResNet34>({.input = {3, 32, 32}, .classes = 10});
    EXPECT_TRUE(holds(trouble({.file = folder / "f"}, ten),
                      "'fc.weight' has the shape 1000 x 512 where 10 x 512 was expected; 'fc.bias' "
                      "has the shape 1000 where 10 was expected. ",
                      "name layers of other shapes in 'fresh'"));
    EXPECT_EQ(trouble({.file = folder / "f", .fresh = {"fc"}}, ten), "no error");
    EXPECT_TRUE(holds(trouble({.file = folder / "f", .fresh = {"f"}}, ten),
                      "'fresh' names layer 'f', and network 'ResNet34' has no such layer"));
}

TEST(Weights, OfAModelInsideAnotherAreSaidToBe) {
    const Folder folder;
    const gx::Graph g = gx::graph<Small>();
    gx::write_weights(folder / "f", g, counted(g));
    Edited e(folder / "f");
    auto inner = std::exchange(e.file.tensors, {});
    for (auto& [name, tensor] : inner) e.file.tensors["module." + name] = tensor;
    e.write(folder / "f");
    EXPECT_TRUE(holds(trouble({.file = folder / "f"}, g), "'conv.weight' is missing",
                      ". All names in the file begin with 'module.'",
                      "save the state_dict() of the inner one, such as model.module.state_dict()"));
    e["epoch"] = {{}, {3}};
    e.write(folder / "f");
    EXPECT_TRUE(holds(trouble({.file = folder / "f"}, g), "Give weights of this network"));
}

TEST(Weights, PassOverWhatPyTorchKeepsBesides) {
    const Folder folder;
    const gx::Graph g = gx::graph<Small>();
    gx::write_weights(folder / "f", g, counted(g));
    Edited e(folder / "f");
    e["bn.num_batches_tracked"] = {{}, {3}};
    e["AuxLogits.fc.bias"] = {{2}, {3, 4}};
    e.write(folder / "f");
    EXPECT_EQ(gx::read_weights(folder / "f", g), counted(g));
    e["optimizer.momentum.fc.bias"] = {{1}, {3}};
    e.write(folder / "f");
    EXPECT_TRUE(holds(trouble({.file = folder / "f"}, g), "'optimizer.momentum.fc.bias' is none"));
}

// ---- Bad numbers --------------------------------------------------------------------
TEST(Weights, RefuseWhatIsNoNumber) {
    const Folder folder;
    const gx::Graph g = gx::graph<Small>();
    gx::write_weights(folder / "f", g, counted(g));
    Edited e(folder / "f");
    e["fc.weight"].values[65] = std::numeric_limits<float>::quiet_NaN();
    e.write(folder / "f");
    EXPECT_TRUE(holds(trouble({.file = folder / "f"}, g),
                      "f': number 65 of tensor 'fc.weight' is nan, and a finite number was "));
    EXPECT_EQ(trouble({.file = folder / "f", .fresh = {"fc"}}, g), "no error");
    e["fc.weight"].values[65] = 1;
    e["bn.running_var"].values[1] = -0.5f;
    e.write(folder / "f");
    EXPECT_TRUE(holds(trouble({.file = folder / "f"}, g),
                      "number 1 of tensor 'bn.running_var' is -0.5, and a variance of 0 or more"));
}

}  // namespace

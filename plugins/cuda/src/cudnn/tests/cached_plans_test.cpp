// Plans of cuDNN that devices keep for later ones, on the doubles.
#include <gx/cuda/device.hpp>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <gx/cuda_testing/gpu_world.hpp>
#include <gx/io/read_file.hpp>
#include <gx/model/cifar_resnet.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/scheduler/constant.hpp>
#include <gx/trainer/trainer.hpp>
#include <trainer/small.hpp>

#include "../../../tests/small_maps.hpp"
#include "../descriptors.hpp"
#include "../dnn.hpp"
#include "../plan_cache.hpp"
#include "gpu_step.hpp"

namespace {

using namespace gx;
using namespace gx::cuda_tests;
using namespace testing_support;
using cuda::detail::PlanCache;
using cuda_testing::CudnnGpu;
namespace fs = std::filesystem;

/// The cache lies in a folder of the test.
class CachedPlans : public ::testing::Test {
protected:
    void SetUp() override { set_cache(folder_.path.string()); }
    void TearDown() override { set_cache(""); }
    static void set_cache(const std::string& path) { ::setenv("GX_CACHE", path.c_str(), 1); }
    [[nodiscard]] std::vector<fs::path> files() const {
        std::vector<fs::path> all;
        for (const auto& entry : fs::directory_iterator(folder_.path)) all.push_back(entry.path());
        return all;
    }
    [[nodiscard]] fs::path only_file() const {
        const auto all = files();
        EXPECT_EQ(all.size(), 1u);
        return all.at(0);
    }
    Folder folder_;
};

struct Trained {
    cuda_tests::Step step{};
    cuda_testing::CudnnCounters counts{};
    std::string warning{};
};
Graph network() { return graph<CifarResNet<8>>({.input = {3, 8, 8}, .classes = 4}); }
Trained run(ElementType e = ElementType::fp16, cuda_testing::CudnnOptions cudnn = {},
            int batch = 2) {
    start();
    cuda_testing::reset_cudnn(cudnn);
    const Graph g = network();
    GpuRun gpu(g, {.batch = batch, .compute = e});
    gpu.load(random_parameters(g, 9));
    Trained r{gpu.step(Images(g, batch, 3).batch(), 1), cuda_testing::cudnn_counters(),
              gpu.device().warning()};
    EXPECT_EQ(r.counts.nondeterministic_executions, 0);
    return r;
}
void expect_same(const Trained& a, const Trained& b) {
    EXPECT_EQ(a.step.logits, b.step.logits);
    EXPECT_EQ(a.step.gradients, b.step.gradients);
    EXPECT_EQ(a.step.statistics, b.step.statistics);
    EXPECT_EQ(a.counts.plans + a.counts.deserialized_plans,
              b.counts.plans + b.counts.deserialized_plans);
}

// ---- Whole files -------------------------------------------------------------------------------

TEST_F(CachedPlans, ALaterDeviceMakesNone) {
    for (const ElementType e : {ElementType::fp32, ElementType::fp16})
        for (const CudnnGpu gpu : {CudnnGpu::h100, CudnnGpu::v100}) {
            const Trained first = run(e, {.gpu = gpu}), later = run(e, {.gpu = gpu});
            EXPECT_GT(first.counts.plans, 10);
            EXPECT_EQ(first.counts.deserialized_plans, 0);
            EXPECT_EQ(later.counts.plans, 0);
            expect_same(first, later);
            EXPECT_EQ(first.warning + later.warning, "");
        }
    EXPECT_EQ(files().size(), 2u) << "one for each version of cuDNN";
}
TEST_F(CachedPlans, OtherShapesAndElementsArePlanned) {
    const Trained first = run(ElementType::fp16, {}, 2);
    const std::string bytes = read_file(only_file());
    const Trained larger = run(ElementType::fp16, {}, 3), other = run(ElementType::fp32, {}, 2);
    EXPECT_EQ(larger.counts.plans, first.counts.plans);
    EXPECT_EQ(larger.counts.deserialized_plans, 0);
    EXPECT_GT(other.counts.plans, 10);
    EXPECT_GT(read_file(only_file()).size(), 2 * bytes.size()) << "all are kept";
    EXPECT_EQ(run(ElementType::fp16, {}, 2).counts.plans, 0);
}
TEST_F(CachedPlans, OfAnotherVersionAreNotTaken) {
    const Trained first = run();
    const Trained other = run(ElementType::fp16, {.version = 91901});
    EXPECT_EQ(other.counts.plans, first.counts.plans);
    EXPECT_EQ(other.warning, "") << "its file is another one";
    EXPECT_EQ(files().size(), 2u);
}
TEST_F(CachedPlans, AnEmptyNameSwitchesThemOff) {
    set_cache("");
    EXPECT_EQ(run().counts.plans, run().counts.plans);
    EXPECT_TRUE(files().empty());
}
/// What was asked for decides which plans are taken, not only the graph.
TEST_F(CachedPlans, OfQuickerEnginesAreNotTakenWithoutThemNorTheOtherWay) {
    const Graph g = network();
    struct Planned {
        std::int64_t plans, workspace_bytes;
        bool operator==(const Planned&) const = default;
    };
    const auto planned = [&](const cuda::DnnOptions& o) {
        start();
        cuda::Dnn dnn(nullptr, o);
        (void)dnn.layer(g, g.ops[1], 2);
        dnn.save_plans();
        return Planned{cuda_testing::cudnn_counters().plans, dnn.workspace_bytes()};
    };
    const Planned exact = planned({});
    EXPECT_GT(exact.plans, 0);
    for (const cuda::DnnOptions& o :
         {cuda::DnnOptions{.tf32 = true}, cuda::DnnOptions{.deterministic = false}}) {
        const Planned quick = planned(o);
        EXPECT_EQ(quick.plans, exact.plans);
        EXPECT_NE(quick.workspace_bytes, exact.workspace_bytes);
        EXPECT_EQ(planned(o), (Planned{0, quick.workspace_bytes}));
        EXPECT_EQ(planned({}), (Planned{0, exact.workspace_bytes}));
    }
}
TEST_F(CachedPlans, AreFoundByAllThatAGraphIsMadeOf) {
    start();
    using cuda::detail::DnnGraph;
    const auto signature = [](cudnnPointwiseMode_t mode, cudnnDataType_t type, std::int64_t c,
                              bool swapped) {
        DnnGraph g;
        void *const a = g.tensor({2, c, 1, 1}, type), *const b = g.tensor({1, c, 1, 1}, type);
        g.pointwise(mode, swapped ? b : a, swapped ? a : b, g.tensor({2, c, 1, 1}, type));
        return g.signature();
    };
    const std::string one = signature(CUDNN_POINTWISE_ADD, CUDNN_DATA_FLOAT, 4, false);
    EXPECT_EQ(one, signature(CUDNN_POINTWISE_ADD, CUDNN_DATA_FLOAT, 4, false));
    EXPECT_NE(one, signature(CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, 4, false));
    EXPECT_NE(one, signature(CUDNN_POINTWISE_ADD, CUDNN_DATA_HALF, 4, false));
    EXPECT_NE(one, signature(CUDNN_POINTWISE_ADD, CUDNN_DATA_FLOAT, 5, false));
    EXPECT_NE(one, signature(CUDNN_POINTWISE_ADD, CUDNN_DATA_FLOAT, 4, true));
}

/// Such a plan is made anew; the others are taken.
TEST_F(CachedPlans, OfWhichCudnnDoesNotAnswerAreMadeAnew) {
    const Trained first = run();
    for (const int answer : {1, 2}) {
        start();
        cuda_testing::fail_cudnn_answer(answer);
        const Graph g = network();
        GpuRun gpu(g, {.batch = 2, .compute = ElementType::fp16});
        const auto counts = cuda_testing::cudnn_counters();
        EXPECT_EQ(counts.plans, 1);
        EXPECT_EQ(counts.deserialized_plans, first.counts.plans);
        EXPECT_TRUE(holds(gpu.device().warning(), "plans of cuDNN are made anew"));
    }
}

// ---- Files that are not whole ------------------------------------------------------------------

TEST_F(CachedPlans, OfATruncatedFileAreMadeAnew) {
    const Trained whole = run();
    const fs::path file = only_file();
    const std::string bytes = read_file(file);
    for (const double share : {0.0, 0.001, 0.3, 0.7, 0.999}) {
        const auto size = std::size_t(share * double(bytes.size()));
        std::ofstream(file, std::ios::binary) << bytes.substr(0, size);
        const Trained cut = run();
        expect_same(whole, cut);
        EXPECT_GT(cut.counts.plans, 0);
        EXPECT_EQ(cut.counts.deserialized_plans > 0, share > 0.1);
        EXPECT_TRUE(holds(cut.warning, "plans of cuDNN are made anew", file.string(), "truncated"));
        EXPECT_EQ(read_file(file), bytes) << "it is whole again";
    }
}
/// Each plan of the file, changed; checksums are right.
void change_plans(const fs::path& file, const std::function<void(std::string&)>& change) {
    const std::string bytes = read_file(file);
    const std::size_t name = bytes.find('\n') + 1, end = bytes.find('\n', name);
    fs::remove(file);
    PlanCache cache(file, bytes.substr(name, end - name));
    for (std::size_t at = end + 9; at < bytes.size();) {
        std::uint64_t numbers[3];  // key, bytes, hash
        std::memcpy(numbers, &bytes[at], sizeof numbers);
        std::string plan = bytes.substr(at + sizeof numbers, numbers[1]);
        at += sizeof numbers + numbers[1];
        change(plan);
        cache.keep(numbers[0], plan);
    }
    cache.save();
}
void replace(std::string& text, const std::string& from, const std::string& to) {
    if (const auto at = text.find(from); at != std::string::npos) text.replace(at, from.size(), to);
}
TEST_F(CachedPlans, ThatCudnnRefusesAreMadeAnew) {
    const Trained whole = run();
    const fs::path file = only_file();
    const std::vector<std::pair<std::function<void(std::string&)>, const char*>> changes{
        {[](std::string& p) { p.clear(); }, "CUDNN_STATUS_BAD_PARAM"},
        {[](std::string& p) { p.resize(p.size() / 2); }, "CUDNN_STATUS_BAD_PARAM"},
        {[](std::string& p) { p = "{}"; }, "CUDNN_STATUS_BAD_PARAM"},
        {[](std::string& p) { replace(p, "91900", "91002"); }, "VERSION_MISMATCH"},
        {[](std::string& p) { replace(p, "Ver\":900", "Ver\":700"); }, "ARCH_MISMATCH"},
        {[](std::string& p) { replace(p, "engineId\":", "engineId\":9"); }, "NOT_SUPPORTED"},
    };
    for (const auto& [change, words] : changes) {
        change_plans(file, change);
        const Trained r = run();
        expect_same(whole, r);
        EXPECT_EQ(r.counts.deserialized_plans, 0);
        EXPECT_TRUE(holds(r.warning, "cuDNN does not take a plan of", words));
        EXPECT_EQ(run().warning, "") << "they were written again";
    }
}
TEST_F(CachedPlans, OfEnginesThatAreExcludedAreMadeAnew) {
    const Trained whole = run();
    change_plans(only_file(), [](std::string& p) {
        p.replace(p.find("engineId\":"), p.size(), "engineId\":0}}");  // nondeterministic
    });
    const Trained r = run();
    EXPECT_EQ(r.step.gradients, whole.step.gradients);
    EXPECT_TRUE(holds(r.warning, "its engine is excluded for its notes"));
}

// ---- The Trainer -------------------------------------------------------------------------------

using T = Trainer<CifarResNet<8>, Ring<fp32>, Constant>;
RunRecord train(int ranks) {
    start();
    cuda_testing::GpuWorld<cuda::Device> gpus({ranks, 1});
    return T({.batch = 2, .epochs = 1, .seed = 3, .evaluate = false}).train(gpus, maps(8));
}
TEST_F(CachedPlans, SeveralRanksKeepThemAtOnce) {
    const RunRecord first = train(4);
    EXPECT_TRUE(first.warnings.empty());
    const RunRecord later = train(4);
    expect_same_learning(first, later);
    EXPECT_EQ(cuda_testing::cudnn_counters().plans, 0);
    EXPECT_EQ(files().size(), 1u);
}
TEST_F(CachedPlans, ARecordSaysOnceWhyThereAreNone) {
    set_cache((folder_ / "file").string());
    std::ofstream(folder_ / "file") << "no folder";
    const RunRecord r = train(2);
    ASSERT_EQ(r.warnings.size(), 1u);
    EXPECT_TRUE(holds(r.warnings[0], "plans of cuDNN are made anew", "Set GX_CACHE to a folder"));
}

}  // namespace

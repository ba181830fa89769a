#include <gx/sim/io/measured_gpu.hpp>  // first, so the header is seen to stand alone

#include <string>  // files

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/core/error.hpp>            // Error
#include <gx/model/resnet.hpp>          // ResNet50
#include <gx/sim/catalog/find_gpu.hpp>  // h100
#include <support/files.hpp>            // error_of, holds
#include <support/measured_h100.hpp>    // measured_h100, with

namespace {

using gx::seconds;
using gx::sim::ExpectedStep;
using gx::sim::MeasuredGpu;
using gx::sim::Precision;
using gx::sim::read_measured_gpu;
using testing_support::error_of;
using testing_support::holds;
using testing_support::measured_h100;
using testing_support::with;

const std::string profile_of =
    R"("composition": "Trainer<ResNet50, MultiRing<4, fp16>, Warmup<Poly<2>>, Compute<fp16>>",
  "gpus": 1, "batch": 256, "step": 3)";

// ---- A case worked by hand ----------------------------------------------------------
TEST(MeasuredGpu, IsReadFromItsFile) {
    const MeasuredGpu m = read_measured_gpu(measured_h100, "h100.json");
    EXPECT_EQ(m.name, "NVIDIA H100 80GB HBM3");
    EXPECT_EQ(m.data_sheet.name, gx::sim::h100().name);
    EXPECT_EQ(m.network, "ResNet-50");
    EXPECT_EQ(m.precision, Precision::mixed);
    EXPECT_EQ(m.batch, 256);
    EXPECT_EQ(m.images_per_second, 6650);
    ASSERT_EQ(m.kinds.size(), 10u);
    EXPECT_EQ(m.kinds[0].name, "products, forward");
    EXPECT_EQ(m.kinds[0].kernels, 54);
    EXPECT_EQ(m.kinds[0].milliseconds, 5.684736);
    EXPECT_EQ(m.kinds[0].dram_gigabytes, 9.722702);
    EXPECT_NEAR(m.milliseconds(), 37.991776, 1e-5) << "the sum that the profile holds beside them";
    EXPECT_NEAR(
        m.sums().products,
        1e-3 * (m.kinds[0].milliseconds + m.kinds[1].milliseconds + m.kinds[2].milliseconds),
        1e-12);
    EXPECT_NEAR(
        m.sums().memory_bound,
        1e-3 * (m.kinds[3].milliseconds + m.kinds[4].milliseconds + m.kinds[5].milliseconds),
        1e-12);
}

TEST(MeasuredGpu, ItsSumsAreTheFittedGpus) {
    const MeasuredGpu m = read_measured_gpu(measured_h100, "h100.json");
    const gx::sim::GpuSpec gpu = measured_gpu(m, "h100.json");
    const auto all = gx::sim::step_kernels(gx::graph<gx::ResNet50>(), gpu, Precision::mixed, 256);
    EXPECT_NEAR(seconds(all.sum(gx::sim::is_product).time), m.sums().products, 1e-6);
    EXPECT_NEAR(seconds(all.sum(gx::sim::is_memory_bound).time), m.sums().memory_bound, 1e-6);
    EXPECT_EQ(gpu.name, gx::sim::h100().name);
    EXPECT_EQ(gpu.launch, gx::sim::h100().launch);
}

// ---- What the profile does not hold, the trainings or the caller do -----------------
TEST(MeasuredGpu, TheStepIsTheFirstTrainingsOnOneGpu) {
    const std::string text = with(measured_h100, profile_of, R"("composition": null)");
    const MeasuredGpu m = read_measured_gpu(text, "f", {"resnet50", 256});
    EXPECT_EQ(m.batch, 256);
    EXPECT_EQ(m.images_per_second, 6650);
    EXPECT_TRUE(holds(error_of([&] { (void)read_measured_gpu(text, "f", {"", 64}); }),
                      "f: line 4: field 'training.cases[0].batch' is 256, and 64 was expected"));
    const std::string four = with(text, R"("gpus": 1, "batch": 256)", R"("gpus": 4, "batch": 256)");
    EXPECT_EQ(read_measured_gpu(four, "f").precision, Precision::fp32);
    EXPECT_EQ(read_measured_gpu(four, "f").images_per_second, 1002);
    const MeasuredGpu alone = read_measured_gpu(
        R"({"gpu": "A100-SXM4-40GB", "training": null, "profile": {"kinds": []}})", "f",
        {"resnet-101", 64});
    EXPECT_EQ(alone.network, "ResNet-101");
    EXPECT_EQ(alone.batch, 64);
    EXPECT_EQ(alone.images_per_second, 0);
    EXPECT_EQ(alone.milliseconds(), 0);
}

// ---- Refused ------------------------------------------------------------------------
TEST(MeasuredGpu, SaysWhatIsWrongAndWhere) {
    const auto error = [](const std::string& text, ExpectedStep expected = {}) {
        return error_of([&] { (void)read_measured_gpu(text, "h100.json", expected); });
    };
    const auto changed = [&](const std::string& was, const std::string& now) {
        return error(with(measured_h100, was, now));
    };
    EXPECT_TRUE(holds(error("step 3"), "h100.json: "));
    EXPECT_TRUE(holds(error("[]"), "h100.json: the text is not an object"));
    EXPECT_TRUE(holds(error("{}"), "h100.json: field 'gpu' is missing"));
    EXPECT_TRUE(
        holds(changed("NVIDIA H100 80GB HBM3", "Radeon VII"), "h100.json: line 1: field 'gpu': "));
    EXPECT_TRUE(holds(error(R"({"gpu": "H100", "profile": null})"),
                      "h100.json: line 1: field 'profile' is missing or null"));
    EXPECT_TRUE(holds(changed(R"("kinds")", R"("kind")"), "field 'profile.kinds' is missing: sum"));
    EXPECT_TRUE(holds(changed(R"("count": 54)", R"("count": 0)"),
                      "field 'profile.kinds[0].count' is 0: expected a whole number from 1"));
    EXPECT_TRUE(holds(changed(R"("milliseconds": 5.684736)", R"("milliseconds": 0)"),
                      "field 'profile.kinds[0].milliseconds' is 0: expected a number above 0"));
    EXPECT_TRUE(holds(changed(R"("dram_gigabytes": 9.722702)", R"("dram_gigabytes": -1)"),
                      "field 'profile.kinds[0].dram_gigabytes' is -1: expected a number of at "
                      "least 0"));
    EXPECT_TRUE(holds(changed("5.684736", "\"5\""), "milliseconds' is 5: expected a number"));
    EXPECT_TRUE(holds(changed("5.684736", "1e999"), "field 'profile.kinds[0].milliseconds'"));
    EXPECT_TRUE(holds(changed("6650.0", "0"),
                      "field 'training.cases[0].images_per_second' is 0: expected a number above"));
    EXPECT_TRUE(holds(changed(R"("batch": 256, "step")", R"("batch": 0, "step")"),
                      "field 'profile.batch' is 0: expected a whole number from 1"));
    EXPECT_TRUE(holds(error(measured_h100, {"resnet101", 256}),
                      "field 'profile.composition' trains ResNet-50, and ResNet-101 was expected"));
    EXPECT_TRUE(holds(error(measured_h100, {"resnet50", 128}),
                      "field 'profile.batch' is 256, and 128 was expected"));
    EXPECT_TRUE(holds(error(measured_h100, {"resnet51", 0}), "resnet51"));
    EXPECT_TRUE(holds(changed("\"composition\": \"Trainer<ResNet50", "\"composition\": \"Res"),
                      "field 'training.cases[0].composition' is no composition"));
    EXPECT_TRUE(holds(changed("Trainer<ResNet50", "Trainer<LeNet9"),
                      "field 'training.cases[0].composition': "));
}

TEST(MeasuredGpu, NamesTheFileOfTimesThatNoEfficiencyExplains) {
    const MeasuredGpu m = read_measured_gpu(with(measured_h100, "5.684736", "5684.736"), "f.json");
    EXPECT_TRUE(holds(error_of([&] { (void)measured_gpu(m, "f.json"); }),
                      "f.json: field 'profile.kinds': products of a step took"));
}

// ---- A property, for any cut of the file ---------------------------------------------
RC_GTEST_PROP(MeasuredGpu, ACutFileIsAnErrorThatNamesIt, ()) {
    const auto letters = *rc::gen::inRange<std::size_t>(0, measured_h100.size());
    const std::string said =
        error_of([&] { (void)read_measured_gpu(measured_h100.substr(0, letters), "cut.json"); });
    RC_ASSERT(said.starts_with("cut.json: "));
}

}  // namespace

#include <tools/plan/network.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/model/cifar_resnet.hpp>           // ResNet8
#include <gx/optimizer/adamw.hpp>              // AdamW
#include <gx/reducer/ring.hpp>                 // Ring
#include <gx/sharded/reducer.hpp>              // Sharded
#include <gx/sim/catalog/simple_clusters.hpp>  // ethernet_10g
#include <gx/sim/catalog/find_gpu.hpp>         // find_gpu
#include <gx/sim/compute/gpu_memory.hpp>       // memory_need
#include <gx/sim/compute/vector_kernels.hpp>   // VectorKernels
#include <support/files.hpp>                   // error_of, holds
#include <tools/plan/inputs.hpp>               // read_own_step, input_of_own
#include <tools/plan/search.hpp>               // search

namespace {

using gx::sim::Precision;
using gx::tools::plan::MeasuredWork;
using gx::tools::plan::Network;
using gx::tools::plan::StepInput;
using testing_support::error_of;
using testing_support::holds;

const gx::sim::GpuSpec gpu = gx::sim::find_gpu("V100");
const gx::Graph small = gx::graph<gx::ResNet8>();
double ms(gx::Nanoseconds t) { return gx::seconds(t) * 1e3; }

/// 2 ms of forward, 4 of backward and 1 of update over 8; two gradients of 300 and 100 elements.
MeasuredWork traced() {
    gx::tools::predict::MeasuredStep trace{
        .gpu = true, .step_ms = 7, .forward_ms = 2, .backward_ms = 4, .update_ms = 1};
    trace.gradients = {{300, 0.5}, {100, 1}};
    return gx::tools::plan::measured_parts(trace, 8, "t.json");
}
gx::sim::StepWork pass(const Network& network, int batch, gx::UpdateCost update = {}) {
    return network.pass(batch, gpu, Precision::mixed, gx::sim::fused_kernels, update);
}

// ---- A network of the user's own --------------------------------------------------------------
TEST(Network, AMeasuredStepGoesByItsExamples) {
    const Network own(traced());
    EXPECT_EQ(own.graph(), nullptr);
    EXPECT_EQ(own.parameters(), 400);
    for (const int batch : {1, 4, 8, 24, 1'000'000'000}) {
        const gx::sim::StepWork w = pass(own, batch);
        EXPECT_NEAR(ms(w.forward), 2.0 * batch / 8, 1e-5 + 1e-12 * batch) << batch;
        EXPECT_NEAR(ms(w.backward), 4.0 * batch / 8, 1e-5 + 1e-12 * batch) << batch;
        EXPECT_NEAR(ms(w.update), 1, 1e-5) << "whatever the batch";
        EXPECT_EQ(w.elements, 400);
        ASSERT_EQ(w.ready.size(), 2u);
        EXPECT_NEAR(ms(w.ready[0].after), 2.0 * batch / 8, 1e-5 + 1e-12 * batch);
        EXPECT_EQ(w.ready[0].watermark, 100);
        EXPECT_EQ(w.ready[1].after, w.backward);
        EXPECT_EQ(w.ready[1].watermark, 0);
    }
}
/// The measured update by the ratio of the modelled ones, whose launch is not shared.
TEST(Network, RanksShareAMeasuredUpdate) {
    MeasuredWork large = traced();
    large.step.elements = 400'000'000;
    gx::UpdateCost update = gx::AdamW::update_cost;
    const auto modelled = [&] { return gx::tools::plan::update_time(400'000'000, gpu, update); };
    const double whole = ms(modelled());
    update.shards = 4;
    EXPECT_NEAR(ms(pass(Network(large), 8, update).update), ms(modelled()) / whole, 1e-5);
    EXPECT_NEAR(ms(modelled()) / whole, 0.25, 0.001);
}
TEST(Network, FitsUpToTheMeasuredBatch) {
    const Network own(traced());
    EXPECT_EQ(own.largest_batch(64, gpu, Precision::mixed, {}), 8);
    EXPECT_EQ(own.largest_batch(5, gpu, Precision::mixed, {}), 5);
    own.expect_fits(8, gpu, Precision::mixed, {});
    EXPECT_TRUE(holds(error_of([&] { own.expect_fits(9, gpu, Precision::mixed, {}); }),
                      "a pass over 9 examples was not measured, and may not fit in V100-SXM2-16GB",
                      "up to 8 do; measure a larger --step-batch"));
}
TEST(Network, KnownOnesGoByTheirGraph) {
    const Network known(small);
    EXPECT_EQ(known.graph(), &small);
    EXPECT_EQ(known.parameters(), small.parameter_elements());
    const auto roofline = step_work(small, gx::sim::TimedGraph(small, gpu, Precision::mixed), 16);
    EXPECT_EQ(pass(known, 16).total(), roofline.total());
    auto little = gpu;
    little.memory = gx::sim::memory_need(small, 8, Precision::mixed).total();
    EXPECT_EQ(known.largest_batch(64, little, Precision::mixed, {}), 8);
    EXPECT_TRUE(holds(error_of([&] { known.expect_fits(9, little, Precision::mixed, {}); }),
                      "does not fit"));
}

// ---- Its parts, where they were not measured --------------------------------------------------
TEST(Network, PartsOfAWholeStepAddUp) {
    const gx::UpdateCost update{};
    const auto m = gx::tools::plan::with_parts(gx::tools::plan::measured_whole(0.2, 32),
                                               350'000'000, gpu, update, "--step-seconds");
    EXPECT_EQ(m.batch, 32);
    EXPECT_TRUE(m.parts);
    EXPECT_EQ(m.step.total(), gx::nanoseconds(0.2));
    // 20 bytes of each at 900 GB/s times the share that fp32 kernels reach
    const double bytes_s = 350e6 * 20 / (gpu.memory_bandwidth.count * gpu.efficiency_fp32.memory);
    EXPECT_NEAR(ms(m.step.update), 1e3 * bytes_s + ms(gpu.launch), 1e-5);
    EXPECT_NEAR(ms(m.step.backward), 2 * ms(m.step.forward), 1e-5);
    EXPECT_EQ(m.step.ready.front().after, m.step.backward / 100);
    EXPECT_EQ(m.step.ready.front().watermark, 346'500'000);
    EXPECT_EQ(m.step.ready.back().after, m.step.backward);
    EXPECT_TRUE(holds(error_of([&] {
                          (void)gx::tools::plan::with_parts(
                              gx::tools::plan::measured_whole(0.001, 32), 350'000'000, gpu, update,
                              "--step-seconds");
                      }),
                      "--step-seconds: a step of 1 ms, where V100-SXM2-16GB takes ",
                      "for the update of 350000000 parameters alone"));
}
RC_GTEST_PROP(Network, GradientsOfAnySizeAreReadyEvenlyAndAll, ()) {
    const auto parameters = *rc::gen::inRange<std::int64_t>(1, 2'000'000);
    const auto m = gx::tools::plan::with_parts(gx::tools::plan::measured_whole(1, 1), parameters,
                                               gpu, {}, "--step-seconds");
    std::int64_t above = parameters;
    gx::Nanoseconds after{};
    for (const auto& r : m.step.ready) {
        RC_ASSERT(r.watermark < above);
        RC_ASSERT(r.after > after);
        const double share = gx::seconds(r.after) / gx::seconds(m.step.backward);
        const double sent = 1 - static_cast<double>(r.watermark) / static_cast<double>(parameters);
        RC_ASSERT(std::abs(sent - share) <= 1.0 / static_cast<double>(parameters) + 1e-6);
        above = r.watermark;
        after = r.after;
    }
    RC_ASSERT(above == 0);
    RC_ASSERT(after == m.step.backward);
}

// ---- In a plan --------------------------------------------------------------------------------
gx::tools::plan::SearchSpace space() {
    using gx::tools::plan::reducer_choice;
    gx::tools::plan::SearchSpace s{
        .reducers = {reducer_choice<gx::Ring<gx::fp32>>("fp32", gx::sim::Algorithm::ring),
                     reducer_choice<gx::Sharded<gx::Ring<gx::fp32>>>("fp32",
                                                                     gx::sim::Algorithm::ring)},
        .buckets = {gx::Bytes{0}, gx::Bytes{65536}},
        .precision = Precision::fp32};
    for (const int n : {1, 2, 4}) s.clusters.push_back(gx::sim::ethernet_10g(n));
    return s;
}
/// Where the batch is the measured one, a graph says no more than its trace.
TEST(Network, ATraceOfAKnownNetworkPlansAlikeWithoutItsGraph) {
    gx::tools::predict::MeasuredStep trace{
        .gpu = true, .step_ms = 50, .forward_ms = 15, .backward_ms = 30, .update_ms = 2};
    const std::int64_t half = small.parameter_elements() / 2;
    trace.gradients = {{half, 0.3}, {small.parameter_elements() - half, 1}};
    const auto m = gx::tools::plan::measured_parts(trace, 16, "t.json");
    auto known = space();
    known.reducers.pop_back();  // a shared update goes by a model, of one kernel or of several
    auto own = known;
    known.measured = m;
    const gx::tools::plan::Job job{.examples = 640, .epochs = 2, .batch_per_gpu = 16};
    const auto by_graph = search(job, small, known), by_step = search(job, Network(m), own);
    ASSERT_EQ(by_graph.size(), by_step.size());
    for (std::size_t i = 0; i < by_step.size(); ++i) {
        EXPECT_EQ(by_step[i].infeasible, "");
        EXPECT_EQ(by_step[i].step, by_graph[i].step) << by_step[i].choice.text();
        EXPECT_EQ(by_step[i].exposed, by_graph[i].exposed);
        EXPECT_EQ(by_step[i].total, by_graph[i].total);
    }
}
TEST(Network, ItsLargerBatchesTakeMicroBatches) {
    const Network own(traced());
    auto s = space();
    const gx::tools::plan::Job job{.examples = 640, .epochs = 2, .batch_per_gpu = 32};
    EXPECT_TRUE(holds(search(job, own, s)[0].infeasible, "a pass over 32 examples",
                      "4 micro-batches fit: --micro-batches 0"));
    s.micro_batches = 0;
    const auto all = search(job, own, s);
    EXPECT_EQ(all[0].infeasible, "");
    EXPECT_EQ(all[0].choice.micro_batches, 4);
    const gx::sim::VectorKernels kernels(s.clusters[0].machine.gpu);
    EXPECT_NEAR(ms(all[0].step), 4 * 6 + 1 + 3 * ms(kernels.time({400 * 12})), 1e-4)
        << "four passes, three sums between them, one update";
}

// ---- Inputs ----------------------------------------------------------------------------------
TEST(Network, InputsAndRefusalsNameWhatIsMissing) {
    const auto clusters = space().clusters;
    const auto read = [&](const StepInput& step, std::int64_t parameters) {
        return gx::tools::plan::read_own_step(step, parameters, clusters, {});
    };
    const auto refusal = [&](const StepInput& step, std::int64_t parameters) {
        return error_of([&] { (void)read(step, parameters); });
    };
    EXPECT_TRUE(holds(refusal({}, 9), "--model own", "give --trace, or --parameters with"));
    EXPECT_TRUE(holds(refusal({.step_s = 1, .batch = 8}, 0), "--step-seconds", "--parameters"));
    EXPECT_TRUE(holds(refusal({.images_s = 1}, 9), "--images-per-second", "--step-batch"));
    const std::string trace = R"({"traceEvents": [
        {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#2", "ts": 0, "dur": 100},
        {"ph": "X", "cat": "user_annotation", "name": "Optimizer.step#SGD", "ts": 80, "dur": 10},
        {"ph": "X", "name": "autograd::engine::evaluate_function: A", "ts": 40, "dur": 9},
        {"ph": "X", "name": "torch::autograd::AccumulateGrad", "ts": 50, "dur": 5,
         "args": {"Input Dims": [[4, 3]]}}]})";
    const StepInput of_cpu{.trace_file = "t.json", .trace = trace, .batch = 8};
    EXPECT_TRUE(holds(refusal(of_cpu, 0), "t.json", "a CPU's", "ProfilerActivity.CUDA"));
    EXPECT_TRUE(holds(refusal(of_cpu, 13), "--parameters 13: t.json has 1 gradients of 12 elements",
                      "leave --parameters out"));

    const StepInput rate{.images_s = 160, .batch = 8};
    const auto m = read(rate, 1'000'000);
    EXPECT_NEAR(ms(m.step.total()), 50, 1e-5);
    EXPECT_TRUE(holds(refusal(rate, 5'000'000'000), "--parameters 5000000000", "they take 20 GB",
                      "V100-SXM2-16GB has 16", "--machine"));
    const auto own = [&](const StepInput& step, const MeasuredWork& work, std::int64_t need) {
        return input_of_own(step, work, gx::Bytes{need}, gpu);
    };
    EXPECT_EQ(own(rate, m, 1).doubt, "");
    EXPECT_TRUE(holds(own(rate, m, 30'000'000'000).doubt, "1 million parameters", "take 30 GB",
                      "V100-SXM2-16GB has 16: was the step measured there?"));
    EXPECT_TRUE(holds(own(rate, m, 1).text, "--images-per-second has 50.0 ms for a pass over 8",
                      "other batches in proportion", "the update of 1 million parameters",
                      "passes over more than 8 are taken not to fit"));
    EXPECT_TRUE(holds(own({.trace_file = "t.json"}, traced(), 1).text, "--trace t.json has 7.0 ms",
                      "2 gradients are ready as traced"));
    EXPECT_EQ((gx::tools::plan::Job{.model = "own", .parameters = 25'600'000}.network()),
              "A network of 25.6 million parameters");
    EXPECT_EQ(gx::tools::plan::parameters_text(999'999), "999999 parameters");
    EXPECT_EQ(gx::tools::plan::parameters_text(175'000'000'000), "175 billion parameters");
}

}  // namespace

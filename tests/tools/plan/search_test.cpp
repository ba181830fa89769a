#include <tools/plan/search.hpp>

#include <array>    // options
#include <cstdint>  // seeds
#include <random>   // mt19937_64
#include <utility>  // pair
#include <vector>   // candidates

#include <fmt/core.h>  // format
#include <gtest/gtest.h>

#include <gx/model/cifar_resnet.hpp>           // ResNet8
#include <gx/model/resnet.hpp>                 // ResNet50
#include <gx/optimizer/adamw.hpp>              // AdamW
#include <gx/optimizer/lars.hpp>               // Lars
#include <gx/reducer/double_buffered.hpp>      // DoubleBuffered
#include <gx/report/chart.hpp>                 // escaped
#include <gx/reducer/ring.hpp>                 // Ring
#include <gx/sharded/reducer.hpp>              // Sharded
#include <gx/sim/catalog/simple_clusters.hpp>  // ethernet_10g
#include <gx/sim/catalog/find_gpu.hpp>         // find_gpu
#include <gx/sim/catalog/gpus.hpp>             // v100, a100_40gb
#include <gx/sim/compute/vector_kernels.hpp>   // VectorKernels
#include <gx/sim/io/machine_file.hpp>          // find_or_read_cluster
#include <gx/trees/double_tree.hpp>            // DoubleTree
#include <support/files.hpp>                   // error_of, holds
#include <tools/plan/inputs.hpp>               // read_step
#include <tools/plan/page.hpp>                 // page
#include <tools/predict/interval.hpp>          // intervals_in_force

namespace {

using gx::tools::plan::Candidate;
using gx::tools::plan::Job;
using gx::tools::plan::reducer_choice;
using gx::tools::plan::search;
using gx::tools::plan::search_phases;
using gx::tools::plan::SearchSpace;
using testing_support::error_of;
using testing_support::holds;

SearchSpace space(std::vector<int> machines) {
    SearchSpace m{.reducers = {reducer_choice<gx::Ring<gx::fp32>>("fp32", gx::sim::Algorithm::ring),
                               reducer_choice<gx::DoubleBuffered<gx::Ring<gx::fp16>>>(
                                   "fp16", gx::sim::Algorithm::ring)},
                  .precision = gx::sim::Precision::fp32};
    for (const int n : machines) m.clusters.push_back(gx::sim::ethernet_10g(n));
    return m;
}
const gx::Graph small = gx::graph<gx::ResNet8>();

// ---- Time and price of a candidate, against a step timed on its own -------------------------
TEST(Search, AreStepsTimesTheirCount) {
    const Job job{.model = "ResNet8", .examples = 1000, .epochs = 3, .global_batch = 64};
    const std::vector<Candidate> all = search(job, small, space({4}));
    ASSERT_EQ(all.size(), 2u);
    const auto step = gx::sim::step_time<gx::Ring<gx::fp32>>(
        small, gx::sim::ethernet_10g(4),
        {.batch = 16, .worth_simulating = 0, .charge_reducer_kernels = false});
    EXPECT_EQ(all[0].step, step.step);
    EXPECT_EQ(all[0].steps, 48);  // ceil(1000 / 64) = 16 an epoch
    EXPECT_EQ(all[0].total, step.step * 48);
    EXPECT_DOUBLE_EQ(all[0].on_demand.value().count, gx::seconds(step.step) * 48 / 3600 * 4 * 3.06);
    EXPECT_FALSE(all[0].spot.has_value()) << "no spot price is known for these machines";
    EXPECT_EQ(all[0].choice.batch_per_gpu, 16);
    EXPECT_EQ(all[1].choice.staleness, 1);
    EXPECT_LT(all[1].total, all[0].total) << "half the bytes, behind the computation";
}

TEST(Search, TimesTheUpdateOfTheOptimizer) {
    const Job job{.examples = 64, .epochs = 1, .global_batch = 64};
    SearchSpace s = space({4});
    s.update = gx::AdamW::update_cost;
    const auto step = gx::sim::step_time<gx::Ring<gx::fp32>>(small, gx::sim::ethernet_10g(4),
                                                             {.batch = 16,
                                                              .worth_simulating = 0,
                                                              .update = gx::AdamW::update_cost,
                                                              .charge_reducer_kernels = false});
    EXPECT_EQ(search(job, small, s)[0].step, step.step);
    EXPECT_GT(step.step, search(job, small, space({4}))[0].step);
}
TEST(Search, CountsTheStateOfTheOptimizer) {
    SearchSpace s = space({1});
    auto& gpu = s.clusters[0].machine.gpu;
    gpu.memory = gx::sim::memory_need(small, 8, s.precision, gx::Lars::update_cost).total();
    const Job job{.examples = 8, .epochs = 1, .batch_per_gpu = 8};
    s.update = gx::Lars::update_cost;
    EXPECT_EQ(search(job, small, s)[0].infeasible, "");
    s.update = gx::AdamW::update_cost;
    EXPECT_NE(search(job, small, s)[0].infeasible.find("does not fit"), std::string::npos);
}

TEST(Search, CountsAShardOfTheStateWhereRanksShareIt) {
    const Job job{.examples = 64, .epochs = 1, .global_batch = 64};
    SearchSpace s = space({4});
    s.update = gx::AdamW::update_cost;
    s.reducers.push_back(
        reducer_choice<gx::Sharded<gx::Ring<gx::fp32>>>("fp32", gx::sim::Algorithm::ring));
    const std::vector<Candidate> all = search(job, small, s);
    const auto step =
        gx::sim::step_time<gx::Sharded<gx::Ring<gx::fp32>>>(small, gx::sim::ethernet_10g(4),
                                                            {.batch = 16,
                                                             .worth_simulating = 0,
                                                             .update = gx::AdamW::update_cost,
                                                             .charge_reducer_kernels = false});
    EXPECT_EQ(all[2].step, step.step);
    EXPECT_EQ(all[2].choice.reducer, "Sharded<Ring<fp32>>");

    auto shared = gx::AdamW::update_cost;
    shared.shards = 4;
    s.clusters[0].machine.gpu.memory = gx::sim::memory_need(small, 16, s.precision, shared).total();
    const std::vector<Candidate> tight = search(job, small, s);
    EXPECT_NE(tight[0].infeasible.find("does not fit"), std::string::npos);
    EXPECT_EQ(tight[2].infeasible, "");
    EXPECT_EQ(tight[2].step, step.step);
}

TEST(Search, NamesShardedWhereItFitsAlone) {
    const Job job{.examples = 64, .epochs = 1, .global_batch = 64};
    SearchSpace s = space({1, 4});
    s.update = gx::AdamW::update_cost;
    auto shared = s.update;
    shared.shards = 4;
    const gx::Bytes room = gx::sim::memory_need(small, 16, s.precision, shared).total();
    for (auto& cluster : s.clusters) cluster.machine.gpu.memory = room;
    std::vector<Candidate> all = search(job, small, s);
    EXPECT_EQ(all[0].infeasible.find("--sharded"), std::string::npos) << "one GPU";
    EXPECT_TRUE(holds(all[2].infeasible, "does not fit",
                      "; with --sharded this batch fits, as a GPU keeps 1/4 of the optimizer's "
                      "state"));
    for (auto& cluster : s.clusters) cluster.machine.gpu.memory.count -= 1;
    EXPECT_EQ(search(job, small, s)[2].infeasible.find("--sharded"), std::string::npos);
    for (auto& cluster : s.clusters) cluster.machine.gpu.memory = room;
    s.reducers.push_back(
        reducer_choice<gx::Sharded<gx::Ring<gx::fp32>>>("fp32", gx::sim::Algorithm::ring));
    EXPECT_EQ(search(job, small, s)[3].infeasible.find("--sharded"), std::string::npos)
        << "it is considered already";
}

// ---- Infeasible candidates, and the rest is still timed ---------------------------
TEST(Search, SaysWhyACandidateCannotRun) {
    const auto all =
        search({.examples = 10, .epochs = 1, .global_batch = 10}, small, space({2, 4}));
    EXPECT_EQ(all[0].infeasible, "");
    EXPECT_EQ(all[2].infeasible, "a batch of 10 is not a multiple of 4 GPUs");
    const auto huge =
        search({.examples = 1 << 22, .epochs = 1, .batch_per_gpu = 1 << 22}, small, space({1}));
    EXPECT_NE(huge[0].infeasible.find("does not fit"), std::string::npos) << huge[0].infeasible;
    EXPECT_NE(huge[0].infeasible.find("fits"), std::string::npos);
    const auto ages =
        search({.examples = std::int64_t{1} << 62, .epochs = 1 << 30, .batch_per_gpu = 1}, small,
               space({1}));
    EXPECT_EQ(ages[0].infeasible,
              "takes more than 9e9 s, which the clock does not count: train on less");
    const auto few =
        search({.examples = 10, .epochs = 1, .batch_per_gpu = 5}, small, space({2, 4}));
    EXPECT_EQ(few[0].infeasible, "");
    EXPECT_EQ(few[2].infeasible,
              "a step of 5 on each of 4 GPUs takes more than the 10 examples of the data set");
}
TEST(Search, OfMachinesWithoutANicAreOfOneAlone) {
    SearchSpace m = space({1, 2});
    for (auto& cluster : m.clusters) cluster.machine.nics = 0;
    const auto all = search({.examples = 10, .epochs = 1, .batch_per_gpu = 1}, small, m);
    EXPECT_EQ(all[0].infeasible, "");
    EXPECT_EQ(all[2].infeasible,
              "machine '1 x V100': it is not connected: 2 machines need a NIC each");
}
TEST(Search, HaveNoPriceWhereNoneIsKnown) {
    SearchSpace m = space({1, 2});
    m.clusters[1].machine.price = {};
    const auto all = search({.examples = 10, .epochs = 1, .batch_per_gpu = 1}, small, m);
    EXPECT_TRUE(all[0].on_demand.has_value());
    EXPECT_FALSE(all[2].on_demand.has_value());
}

// ---- Steps that were measured -----------------------------------------------------------
gx::sim::StepWork roofline(int batch, gx::sim::Precision precision = gx::sim::Precision::fp32) {
    return step_work(
        small, gx::sim::TimedGraph(small, gx::sim::ethernet_10g(1).machine.gpu, precision), batch);
}
double ms(gx::Nanoseconds t) { return gx::seconds(t) * 1e3; }

TEST(SearchSpace, TakesTheKernelsOfAGpusTimeUnlessTheyAreNamed) {
    SearchSpace some;
    EXPECT_TRUE(some.kernels_on(gx::sim::v100()).fused);
    some.kernels = std::nullopt;
    EXPECT_TRUE(some.kernels_on(gx::sim::v100()).channels_first);
    EXPECT_FALSE(some.kernels_on(gx::sim::v100()).fused);
    EXPECT_TRUE(some.kernels_on(gx::sim::a100_40gb()).fused);
    some.kernels = gx::sim::separate_kernels;
    EXPECT_FALSE(some.kernels_on(gx::sim::a100_40gb()).fused);
}
/// The published steps of the 18-minute runs' log: PyTorch on eight p3.16xlarge.
TEST(Search, StepsOfAV100AreAsLongAsPublishedOnes) {
    SearchSpace some = space({8});
    some.clusters[0] = gx::sim::find_or_read_cluster("p3.16xlarge");
    some.clusters[0].machines = 8;
    some.precision = gx::sim::Precision::mixed;
    some.kernels = std::nullopt;
    for (const auto& [batch, published_ms] : {std::pair{128, 224.0}, {224, 346.0}}) {
        const auto all = search({.examples = 1'281'167, .batch_per_gpu = batch},
                                gx::graph<gx::ResNet50>({}), some);
        const auto fastest = std::ranges::min_element(all, {}, &Candidate::step);
        EXPECT_GT(ms(fastest->step), 0.75 * published_ms) << "without the costs of a stack";
        EXPECT_LT(ms(fastest->step), published_ms);
    }
}

/// A step of 50 ms over 16: that of another batch goes by the roofline's ratio.
TEST(Measured, AStepReplacesTheRoofline) {
    SearchSpace s = space({1, 4});
    s.measured = gx::tools::plan::measured_whole(0.05, 16);
    const auto same = search({.examples = 64, .epochs = 1, .batch_per_gpu = 16}, small, s);
    EXPECT_NEAR(ms(same[0].step), 50, 1e-4);
    EXPECT_GT(ms(same[2].step), 50) << "4 machines reduce a gradient";
    const auto other = search({.examples = 64, .epochs = 1, .batch_per_gpu = 64}, small, s);
    EXPECT_NEAR(ms(other[0].step), 50 * ms(roofline(64).total()) / ms(roofline(16).total()), 1e-4);
}
/// Gradients that are ready at the end hide nothing; those that are ready at once hide all.
TEST(Measured, ATraceSaysWhenGradientsAreReady) {
    const std::int64_t all = small.parameter_elements();
    gx::tools::predict::MeasuredStep trace{
        .step_ms = 100, .forward_ms = 20, .backward_ms = 60, .update_ms = 10};
    trace.gradients = {{all - 8, 0}, {8, 1}};
    SearchSpace s = space({1, 4});
    s.buckets = {gx::Bytes{32}, gx::Bytes{(all - 8) * 4}};
    const Job job{.examples = 64, .epochs = 1, .batch_per_gpu = 16};
    s.measured = gx::tools::plan::measured_parts(trace, 16, "t.json");
    const auto early = search(job, small, s);
    EXPECT_NEAR(ms(early[0].step), 100, 1e-4) << "with the 10 ms that are no part";
    trace.gradients = {{all - 8, 1}, {8, 1}};
    s.measured = gx::tools::plan::measured_parts(trace, 16, "t.json");
    const auto late = search(job, small, s);
    EXPECT_NEAR(ms(late[0].step), 100, 1e-4);
    EXPECT_GT(ms(late[5].exposed), ms(early[5].exposed));
}
/// 3 passes over 8 of 24: forward and backward three times, a sum between each two, one update.
TEST(Measured, MicroBatchesOfATraceAreItsPasses) {
    gx::tools::predict::MeasuredStep trace{
        .micro_batches = 3, .step_ms = 100, .forward_ms = 10, .backward_ms = 20, .update_ms = 4};
    trace.gradients = {{small.parameter_elements(), 1}};
    const auto m = gx::tools::plan::measured_parts(trace, 24, "t.json");
    EXPECT_EQ(m.batch, 8);
    EXPECT_NEAR(ms(m.step.forward), 12, 1e-4) << "(100 - 4) / 3 - 20";
    EXPECT_NEAR(ms(m.step.total()), 36, 1e-4);
    SearchSpace s = space({1});
    s.measured = m;
    s.micro_batches = 3;
    const auto all = search({.examples = 64, .epochs = 1, .batch_per_gpu = 24}, small, s);
    const double sum = ms(
        gx::sim::VectorKernels(s.clusters[0].machine.gpu).time({small.parameter_elements() * 12}));
    EXPECT_NEAR(ms(all[0].step), 100 + 2 * sum, 1e-4);
    EXPECT_TRUE(all[0].choice.text().ends_with(", 3 micro-batches")) << all[0].choice.text();
    EXPECT_TRUE(holds(error_of([&] { (void)gx::tools::plan::measured_parts(trace, 25, "t.json"); }),
                      "t.json", "3 micro-batches", "25"));
}
TEST(Measured, RefusalsNameTheInput) {
    using gx::tools::plan::read_step;
    const SearchSpace s = space({1});
    const gx::tools::plan::StepInput step{.step_s = 1, .batch = 8};
    EXPECT_NEAR(ms(read_step(step, small, s.clusters).step.total()), 1000, 1e-4);
    EXPECT_NEAR(ms(read_step({.images_s = 32, .batch = 8}, small, s.clusters).step.total()), 250,
                1e-4);
    const auto refusal = [&](const gx::tools::plan::StepInput& i,
                             const std::vector<gx::sim::ClusterSpec>& clusters) {
        return error_of([&] { (void)read_step(i, small, clusters); });
    };
    EXPECT_TRUE(holds(refusal({.step_s = 1}, s.clusters), "--step-seconds", "--step-batch"));
    auto two = s.clusters;
    two.push_back(two[0]);
    two[1].machine.name = "other";
    two[1].machine.gpu = gx::sim::find_gpu("K80");
    EXPECT_TRUE(holds(refusal(step, two), "--step-seconds", "one GPU", "other", "K80"));
    const std::string trace = R"({"traceEvents": [
        {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#2", "ts": 0, "dur": 100},
        {"ph": "X", "cat": "user_annotation", "name": "Optimizer.step#SGD", "ts": 80, "dur": 10},
        {"ph": "X", "name": "autograd::engine::evaluate_function: A", "ts": 40, "dur": 9},
        {"ph": "X", "name": "torch::autograd::AccumulateGrad", "ts": 50, "dur": 5,
         "args": {"Input Dims": [[4, 3]]}}]})";
    EXPECT_TRUE(holds(refusal({.trace_file = "t.json", .trace = trace, .batch = 8}, s.clusters),
                      "t.json", "1 gradients of 12 elements", "ResNet8", "--model"));
    std::string on_cpu = trace;
    on_cpu.replace(on_cpu.find("[[4, 3]]"), 8,
                   "[[" + std::to_string(small.parameter_elements()) + "]]");
    EXPECT_TRUE(holds(refusal({.trace_file = "t.json", .trace = on_cpu, .batch = 8}, s.clusters),
                      "t.json", "a CPU's", "ProfilerActivity.CUDA"));
}

TEST(Measured, AStepBeyondThePeakOfTheGpuIsRefused) {
    using gx::sim::Precision;
    using gx::tools::plan::StepInput;
    const gx::Graph resnet = gx::graph<gx::ResNet50>();
    const auto refusal = [&](const char* gpu, Precision precision, StepInput step) {
        const auto m = gx::tools::plan::measured_whole(
            step.step_s > 0 ? step.step_s : step.batch / step.images_s, step.batch);
        return error_of(
            [&] { expect_possible(step, m, resnet, gx::sim::find_gpu(gpu), precision); });
    };
    // 4.09e9 multiply-adds forward, as many for each gradient but the image's: 24.3e9 flops an
    // image, 5144 of them a second at 125 TFLOP/s.
    EXPECT_EQ(refusal("V100", Precision::mixed, {.images_s = 5100, .batch = 64}), "no error");
    EXPECT_TRUE(holds(refusal("V100", Precision::mixed, {.images_s = 5200, .batch = 64}),
                      "--images-per-second: 12.31 ms for a pass over 64 of ResNet50 are ",
                      "TFLOP/s, where the peak of V100-SXM2-16GB is 125 (mixed)",
                      "is it the rate of one GPU? Give a step of one"));
    EXPECT_TRUE(holds(refusal("V100", Precision::mixed, {.step_s = 0.001, .batch = 64}),
                      "--step-seconds: 1 ms for a pass over 64"));
    EXPECT_EQ(refusal("V100", Precision::fp32, {.images_s = 1000, .batch = 64}), "no error")
        << "15.7 TFLOP/s are 646 a second; Winograd's convolutions need fewer multiply-adds";
    EXPECT_EQ(refusal("A100", Precision::fp32, {.images_s = 2000, .batch = 64}), "no error")
        << "at TF32, as PyTorch has convolutions of fp32";
}
TEST(Measured, AStepFarFromTheRooflineIsDoubted) {
    using gx::tools::plan::input_of, gx::tools::plan::measured_whole;
    const auto doubt = [](gx::tools::plan::StepInput step, double took_s, double roofline_s) {
        return input_of(step, measured_whole(took_s, 8), gx::nanoseconds(roofline_s)).doubt;
    };
    EXPECT_EQ(doubt({.step_s = 0.49}, 0.49, 0.1), "");
    EXPECT_EQ(doubt({.step_s = 0.021}, 0.021, 0.1), "");
    EXPECT_EQ(doubt({.step_s = 51}, 51, 0.1),
              "--step-seconds has 510 times the roofline's 100 ms for a pass over 8: is it in "
              "seconds, and of one GPU?");
    EXPECT_EQ(doubt({.images_s = 800}, 0.01, 0.1),
              "--images-per-second has 0.1 times the roofline's 100 ms for a pass over 8: is it in "
              "examples a second, and of one GPU?");
    EXPECT_NE(doubt({.trace_file = "t.json"}, 1, 0.1), "");
}
TEST(Measured, NcclTestsOfAnotherGpuAreDoubted) {
    gx::sim::NcclTests tests{.ranks = 8, .hosts = 1};
    for (const int mb : {1, 2, 4})
        tests.rows.push_back({.bytes = {mb * 1'000'000},
                              .in_place = gx::nanoseconds(1e-4 * mb),
                              .out_of_place = gx::nanoseconds(1e-4 * mb)});
    const gx::sim::ClusterSpec p4d{.machine = gx::sim::find_machine("p4d.24xlarge")};
    const auto doubt = [&](const char* gpu) {
        tests.gpu = gpu;
        return gx::tools::plan::input_of(tests, "one.txt", p4d).doubt;
    };
    EXPECT_EQ(doubt("NVIDIA A100-SXM4-40GB"), "");
    EXPECT_EQ(doubt(""), "") << "not printed";
    EXPECT_EQ(doubt("NVIDIA H100 80GB HBM3"),
              "--nccl-tests one.txt is of 'NVIDIA H100 80GB HBM3', and 'p4d.24xlarge' has "
              "A100-SXM4-40GB: was it measured on these machines? Name those with --machine");
}

TEST(Measured, WhatNcclTestsLeaveOutIsAssumed) {
    using gx::sim::NcclTests;
    const gx::sim::MachineSpec machine{.name = "ours", .gpus = 8};
    const NcclTests one{.ranks = 8, .hosts = 1}, two{.ranks = 16, .hosts = 2};
    const auto of = [&](const std::vector<NcclTests>& all, bool stated) {
        std::string text;
        for (const auto& i : gx::tools::plan::assumed_beside(all, machine, stated)) {
            EXPECT_FALSE(i.measured);
            text += i.of + ": " + i.text + ".";
        }
        return text;
    };
    EXPECT_EQ(of({one}, false), "network: data sheets and a profile of ours.");
    EXPECT_EQ(of({one}, true), "");
    EXPECT_EQ(of({two}, false), "GPUs of a machine: wiring and links of ours.");
    EXPECT_EQ(of({one, two}, false), "");
}

// ---- Micro-batches ----------------------------------------------------------------------
TEST(MicroBatches, AreTheFewestThatFit) {
    SearchSpace s = space({1});
    auto& gpu = s.clusters[0].machine.gpu;
    gpu.memory = gx::sim::memory_need(small, 16, s.precision, {.micro_batches = 4}).total();
    const Job job{.examples = 64, .epochs = 1, .batch_per_gpu = 60};
    const std::string refusal = search(job, small, s)[0].infeasible;
    EXPECT_TRUE(holds(refusal, "does not fit", "4 micro-batches fit: --micro-batches 0"));
    s.micro_batches = 2;
    EXPECT_EQ(search(job, small, s)[0].infeasible.substr(0, 16), "a batch of 30 im");
    EXPECT_TRUE(holds(search(job, small, s)[0].infeasible, "4 micro-batches fit"));
    s.micro_batches = 0;
    const Candidate c = search(job, small, s)[0];
    EXPECT_EQ(c.infeasible, "");
    EXPECT_EQ(c.choice.micro_batches, 4) << "60 in parts of 15, the largest up to 16";
    const auto one = roofline(15);
    const auto sum = gx::sim::VectorKernels(gpu).time({small.parameter_elements() * 12});
    EXPECT_EQ(c.step, (one.forward + one.backward) * 4 + sum * 3 + one.update);
    s.micro_batches = 7;
    EXPECT_EQ(search(job, small, s)[0].infeasible,
              "a batch of 60 has no 7 micro-batches of one size");
    gpu.memory = gx::Bytes{1000};
    for (const int parts : {0, 1}) {
        s.micro_batches = parts;
        const std::string never = search(job, small, s)[0].infeasible;
        EXPECT_NE(never.find("does not fit"), std::string::npos);
        EXPECT_EQ(never.find("--micro-batches"), std::string::npos) << "none would help";
    }
}
TEST(MicroBatches, OfOneTakeWhatAStepTakes) {
    const auto pass = roofline(8);
    const auto same = gx::tools::plan::in_micro_batches(pass, 1, gx::Nanoseconds(5));
    EXPECT_EQ(same.total(), pass.total());
    EXPECT_EQ(same.ready.back().after, pass.ready.back().after);
    const auto two = gx::tools::plan::in_micro_batches(pass, 2, gx::Nanoseconds(1000));
    EXPECT_EQ(two.forward, pass.forward * 2 + pass.backward);
    EXPECT_EQ(two.backward, pass.backward + gx::Nanoseconds(1000));
    EXPECT_EQ(two.ready.back().after, two.backward);
}

// ---- Intervals --------------------------------------------------------------------------
TEST(Intervals, HoldTheStepAndGrowWithWhatIsUncertain) {
    SearchSpace s = space({1, 4});
    const Job job{.examples = 64, .epochs = 1, .batch_per_gpu = 16};
    EXPECT_FALSE(search(job, small, s)[2].step_80) << "no stack: a lower bound";
    s.stack = gx::tools::predict::stack_named("pytorch-ddp");
    s.measured = gx::tools::plan::measured_whole(0.1, 16);
    const auto all = search(job, small, s);
    EXPECT_FALSE(all[0].step_80) << "one GPU, measured";
    ASSERT_TRUE(all[2].step_80);
    EXPECT_LT(all[2].step_80->low, all[2].step);
    EXPECT_GT(all[2].step_80->high, all[2].step);
    // that of the efficiency: 100 ms over the step
    const double efficiency = 100 * 100 / ms(all[2].step),
                 low = 100 * 100 / ms(all[2].step_80->high),
                 high = 100 * 100 / ms(all[2].step_80->low);
    EXPECT_NEAR(high - efficiency, efficiency - low, 1e-3);
    const auto network = gx::tools::predict::between(s.clusters[1]);
    const double half = gx::tools::predict::intervals_in_force()[network].half;
    EXPECT_NEAR(efficiency - low, half, 1e-3);
}

// ---- Costs of a framework ---------------------------------------------------------------
// 4 machines of a V100: hidden communication 100 - 30 = 70 ms, of which a fifth is paid: 44 ms.
// Hooks 5 ms, packing 3 ms a 100 MB of 200 MB, stragglers 0.01 * 1.029 * 100 ms.
TEST(Search, AStackAddsInterferenceHooksPackingAndStragglers) {
    using std::chrono::milliseconds;
    const gx::tools::predict::Stack stack{.name = "mine",
                                          .step_ms = 5,
                                          .mb_ms = 3,
                                          .machines_ms = 1,
                                          .jitter = 0.01,
                                          .interference = 0.2};
    const gx::sim::StepTiming t{.step = milliseconds(130),
                                .forward = milliseconds(30),
                                .backward = milliseconds(60),
                                .update = milliseconds(10),
                                .communication = milliseconds(100),
                                .exposed = milliseconds(30)};
    gx::sim::ClusterSpec spec = gx::sim::ethernet_10g(4);
    spec.machine.gpu.memory_bandwidth = {900e9};
    auto with = gx::tools::plan::with_stack(t, stack, spec, 50'000'000);
    EXPECT_EQ(with.exposed, milliseconds(44));
    EXPECT_NEAR(gx::seconds(with.framework), 5e-3 + 6e-3 + 1.029e-3, 1e-8);
    EXPECT_EQ(with.step, t.step + milliseconds(14) + with.framework);
    gx::tools::predict::Stack slow = stack;
    slow.machines_ms = 60;
    EXPECT_EQ(gx::tools::plan::with_stack(t, slow, spec, 1).exposed, milliseconds(60));
    spec.machines = 1;  // one GPU alone reduces nothing
    EXPECT_EQ(gx::tools::plan::with_stack(t, stack, spec, 50'000'000).step, t.step);
    EXPECT_EQ(gx::tools::plan::with_stack(t, {}, gx::sim::ethernet_10g(4), 1).step, t.step);
}
TEST(Search, LateGradientsAreNotFreeUnderAStack) {
    const Job job{.model = "ResNet8", .examples = 1000, .epochs = 1, .global_batch = 64};
    SearchSpace s = space({4});
    const auto alone = search(job, small, s);
    s.stack = gx::tools::predict::stack_named("pytorch-ddp");
    const auto with = search(job, small, s);
    ASSERT_EQ(alone[1].choice.staleness, 1);
    EXPECT_GT(with[1].exposed, alone[1].exposed);
    EXPECT_GT(with[1].framework.count(), 0);
    EXPECT_EQ(alone[1].framework.count(), 0);
}

/// Ranks that share NICs drift apart in trees of small messages.
TEST(Search, AStepThatDoesNotSettleIsTheMeanOfMany) {
    auto spec = gx::sim::find_or_read_cluster("p3.8xlarge");
    spec.machines = 16;
    gx::sim::StepWork work{.forward = gx::Nanoseconds(3'000'000),
                           .backward = gx::Nanoseconds(6'000'000),
                           .elements = 7'100'000};
    for (int part = 1; part <= 10; ++part)
        work.ready.push_back({work.backward * part / 10, work.elements * (10 - part) / 10});
    const auto time = [&](int steps) {
        return gx::sim::step_time<gx::DoubleTree<8, gx::fp16>>(work, spec, {.steps = steps});
    };
    const auto found = time(0), many = time(100);
    EXPECT_FALSE(found.settled) << "else this tests nothing";
    const double mean_ms = ms(many.ends[99] - many.ends[49]) / 50;
    EXPECT_NEAR(ms(found.step), mean_ms, 0.005 * mean_ms);
    EXPECT_EQ(found.exposed, found.step - work.total());
    double worst = 0;
    for (std::size_t i = 50; i < 100; ++i)
        worst = std::max(worst, std::abs(ms(many.ends[i] - many.ends[i - 1]) / mean_ms - 1));
    EXPECT_GT(worst, 0.005) << "one step is a sample";
}

// ---- A bound on the work --------------------------------------------------------------
TEST(Search, LeavesOutWhatIsTooMuchToSimulate) {
    SearchSpace s = space({1, 2, 64});
    s.most_messages = 5000;
    const auto all = search({.examples = 10'000, .epochs = 1, .batch_per_gpu = 1}, small, s);
    EXPECT_EQ(all[2].infeasible, "");
    s.clusters[2].machine.gpus = 1024;
    s.clusters[2].machine.peer_bandwidth = {1e9};
    s.clusters[2].machines = 1;
    const auto wide = search({.examples = 10'000, .epochs = 1, .batch_per_gpu = 1}, small, s);
    EXPECT_EQ(wide[2].infeasible, "");
    EXPECT_NE(wide[4].infeasible.find("not simulated: about"), std::string::npos);
    EXPECT_TRUE(wide[2].simulated && !wide[4].simulated);
}

// ---- Phases ---------------------------------------------------------------------------------
gx::Graph small_at(int side) { return gx::graph<gx::ResNet8>({.input = {3, side, side}}); }

TEST(SearchPhases, SumsThePhasesEachWithItsOwnStep) {
    Job job{.examples = 1000, .epochs = 9, .phases = {{0, 32, 16}, {4, 16, 32}, {7, 4, 48}}};
    SearchSpace s = space({1, 4});
    s.clusters[0].machine.spot_price = {1.5};
    const std::vector<Candidate> all = search_phases(job, small_at, s);
    ASSERT_EQ(all.size(), 4u);
    const std::array epochs{4, 3, 2};
    for (std::size_t i = 0; i < all.size(); ++i) {
        gx::Nanoseconds total{}, exposed{};
        double dollars = 0;
        std::int64_t steps = 0;
        for (std::size_t p = 0; p < 3; ++p) {
            const Job part{.examples = 1000,
                           .epochs = epochs[p],
                           .batch_per_gpu = job.phases[p].batch_per_gpu};
            const Candidate c = search(part, small_at(job.phases[p].image_side), s)[i];
            EXPECT_EQ(all[i].phase_steps.at(p), c.step);
            total += c.total;
            exposed += c.exposed * c.steps;
            steps += c.steps;
            dollars += c.on_demand.value().count;
        }
        EXPECT_EQ(all[i].total, total);
        EXPECT_EQ(all[i].steps, steps);
        EXPECT_NEAR(all[i].on_demand.value().count, dollars, 1e-12);
        EXPECT_EQ(all[i].spot.has_value(), i < 2);
        EXPECT_NEAR(gx::seconds(all[i].step) * double(steps), gx::seconds(total), 1e-6);
        EXPECT_NEAR(gx::seconds(all[i].exposed) * double(steps), gx::seconds(exposed), 1e-6);
        EXPECT_EQ(all[i].choice.batch_per_gpu, 32) << "of the first phase";
    }
    job.epochs = 4;  // the later phases are not reached
    EXPECT_EQ(search_phases(job, small_at, s)[2].phase_steps.size(), 1u);
}
TEST(SearchPhases, NameThePhaseThatCannotRun) {
    SearchSpace s = space({4});
    const Job job{.examples = 1000, .epochs = 9, .phases = {{0, 32, 16}, {4, 16, 2048}}};
    const std::vector<Candidate> all = search_phases(job, small_at, s);
    for (const Candidate& c : all)
        EXPECT_TRUE(c.infeasible.starts_with("phase 2: a batch of 16 images")) << c.infeasible;
    const Job first{.examples = 1000, .epochs = 9, .phases = {{0, 1 << 20, 16}, {4, 1, 16}}};
    EXPECT_TRUE(search_phases(first, small_at, s)[0].infeasible.starts_with("phase 1: "));
    const Job long_one{.examples = std::int64_t{1} << 56, .epochs = 2, .phases = {{0, 512, 32}}};
    EXPECT_NE(search_phases(long_one, small_at, s)[0].infeasible, "");
}
TEST(SearchPhases, HaveOneNumberOfMicroBatches) {
    SearchSpace s = space({1});
    s.micro_batches = 0;
    auto& gpu = s.clusters[0].machine.gpu;
    gpu.memory = gx::sim::memory_need(small, 16, s.precision, {.micro_batches = 2}).total();
    const auto plan = [&](int first, int second) {
        const Job job{.examples = 1024, .epochs = 2, .phases = {{0, first, 32}, {1, second, 32}}};
        return search_phases(job, small_at, s)[0];
    };
    const auto step = [&](int batch, int parts) {
        SearchSpace fixed = s;
        fixed.micro_batches = parts;
        const Job job{.examples = 1024, .epochs = 1, .batch_per_gpu = batch};
        return search(job, small, fixed)[0].step;
    };
    for (const auto& [first, second] : {std::pair(8, 64), {64, 8}, {64, 64}}) {
        const Candidate c = plan(first, second);
        ASSERT_EQ(c.infeasible, "");
        EXPECT_EQ(c.choice.micro_batches, 4) << "64 in parts of 16";
        EXPECT_EQ(c.phase_steps, (std::vector{step(first, 4), step(second, 4)}));
    }
    EXPECT_EQ(plan(12, 48).choice.micro_batches, 3);
    EXPECT_EQ(plan(12, 56).choice.micro_batches, 4) << "3 do not divide 56";
    const std::string refusal = plan(15, 64).infeasible;
    EXPECT_TRUE(holds(refusal, "phase 2: ",
                      "; 4 micro-batches fit here, but no number fits and divides every phase"))
        << refusal;
    s.micro_batches = 1;
    EXPECT_TRUE(holds(plan(8, 64).infeasible, "4 micro-batches fit: --micro-batches 0"));
}

// ---- Any options: a time or a reason, after bounded work ------------------------------
TEST(Search, AThousandSpacesEndWithATimeOrAReason) {
    int timed = 0, infeasible = 0;
    for (std::uint64_t seed = 0; seed < 1000; ++seed) {
        std::mt19937_64 random(seed);
        const auto any = [&](auto... x) {
            const std::array all{static_cast<double>(x)...};
            return all[random() % all.size()];
        };
        SearchSpace s = space({static_cast<int>(any(1, 2, 3, 64, 1'000, 1'000'000))});
        s.most_messages = 2e4;
        gx::sim::MachineSpec& m = s.clusters[0].machine;
        m.gpus = static_cast<int>(any(1, 2, 8, 16, 200, 1024));
        m.peer_bandwidth = {any(0, 1e6, 1e9, 1e12)};
        m.host_bandwidth = {any(0, 1e6, 1e10)};
        m.nic_line_rate = {any(0, 1e6, 1e9, 1e11)};
        m.nics = static_cast<int>(any(0, 1, 1, 4));
        m.price = {any(0, 1e-9, 3, 1e9)};
        s.buckets = {gx::Bytes{static_cast<std::int64_t>(any(0, 4, 1'000, 1e6, 1e12))}};
        if (random() % 2) s.stack = gx::tools::predict::stack_named("mxnet-horovod");
        Job job{.model = "m",
                .examples = static_cast<std::int64_t>(any(1, 50'000, 500'000, 1e18)),
                .epochs = static_cast<int>(any(1, 90, 1'000'000))};
        const int batch = static_cast<int>(any(1, 8, 64, 256, 1'000'000'000));
        (random() % 2 ? job.global_batch : job.batch_per_gpu) = batch;
        SCOPED_TRACE(seed);
        std::vector<Candidate> all = search(job, small, s);
        pareto_front(all, job);
        for (const Candidate& c : all) {
            ++(c.infeasible.empty() ? timed : infeasible);
            if (!c.infeasible.empty()) continue;
            EXPECT_GT(c.step.count(), 0);
            EXPECT_GE(c.exposed.count(), 0);
            EXPECT_GE(c.total, c.step);
            EXPECT_TRUE(c.on_front || !c.why.empty());
        }
    }
    EXPECT_GT(timed, 100);
    EXPECT_GT(infeasible, 100);
}

// ---- The page ---------------------------------------------------------------------------
TEST(Page, HoldsEveryCandidateAndLoadsNothing) {
    const Job job{.model = "<M>", .examples = 1000, .epochs = 1, .batch_per_gpu = 8};
    SearchSpace m = space({1, 2, 4});
    m.clusters[2].machine.price = {};
    std::vector<Candidate> all = search(job, small, m);
    gx::tools::plan::pareto_front(all, job);
    const std::string html = gx::tools::plan::page(all, job);
    for (const Candidate& o : all)
        EXPECT_NE(html.find(gx::chart::escaped(o.choice.text())), std::string::npos);
    EXPECT_EQ(html.find("<M>"), std::string::npos) << "names are escaped";
    EXPECT_EQ(html.find("http"), std::string::npos);
    EXPECT_NE(html.find("<circle"), std::string::npos);
    EXPECT_NE(html.find("<td>unknown<td>unknown"), std::string::npos) << "neither price of 4";
    EXPECT_EQ(html.find("nan"), std::string::npos);
}
TEST(Page, HoldsTheIntervalOfAStep) {
    const Job job{.model = "M", .examples = 1000, .epochs = 1, .batch_per_gpu = 8};
    SearchSpace s = space({1, 4});
    s.stack = gx::tools::predict::stack_named("pytorch-ddp");
    std::vector<Candidate> all = search(job, small, s);
    gx::tools::plan::pareto_front(all, job);
    const std::string html = gx::tools::plan::page(all, job);
    EXPECT_NE(html.find("<th>80 % interval<th>"), std::string::npos);
    int with = 0;
    for (const Candidate& c : all) {
        const std::string bounds =
            c.step_80 ? fmt::format("{:.1f} to {:.1f}", ms(c.step_80->low), ms(c.step_80->high))
                      : std::string("-");
        with += c.step_80.has_value();
        const std::size_t row = html.find("<td>" + gx::chart::escaped(c.choice.text()));
        ASSERT_NE(row, std::string::npos);
        const std::string cells = html.substr(row, html.find("</tr>", row) - row);
        EXPECT_NE(cells.find("<td>" + bounds + "<td>"), std::string::npos) << cells;
    }
    EXPECT_EQ(with, 2) << "those on four machines";
}

}  // namespace

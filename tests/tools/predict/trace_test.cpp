#include <tools/predict/trace.hpp>  // first, so the header is seen to stand alone

#include <filesystem>  // the trace's place
#include <string>      // text

#include <gtest/gtest.h>

#include <gx/core/error.hpp>      // Error
#include <gx/io/atomic_file.hpp>  // write_file
#include <gx/io/gzip.hpp>         // read_whole_file
#include <gx/io/read_file.hpp>    // read_file
#include <support/files.hpp>      // error_of, Folder, holds
#include <tools/common/json.hpp>  // Json

namespace {

using gx::tools::Json;
using gx::tools::predict::MeasuredStep;
using gx::tools::predict::read_trace;
using testing_support::error_of;
using testing_support::holds;

Json event(const char* category, const std::string& name, double ts, double dur,
           const Json& args = Json::object()) {
    return {{"ph", "X"}, {"cat", category}, {"name", name},
            {"ts", ts},  {"dur", dur},      {"args", args}};
}
Json gradient(double ts, double dur, const Json& dims) {
    return event("cpu_op", "torch::autograd::AccumulateGrad", ts, dur, {{"Input Dims", dims}});
}
Json function(const char* name, double ts, double dur, int sequence = -1) {
    Json args = Json::object();
    if (sequence >= 0) args["Sequence number"] = sequence;
    return event("cpu_op", std::string("autograd::engine::evaluate_function: ") + name, ts, dur,
                 args);
}
MeasuredStep read(const Json& events) {
    return read_trace(Json{{"traceEvents", events}}.dump(), "t.json");
}
std::string refusal(const Json& events) {
    return error_of([&] { (void)read(events); });
}

/// Steps 5 and 6, of 1.0 and 3.0 ms, and 7 of 1.2 ms, which is the median. Of step 7, that begins
/// at 10 ms: backward from 10.4 to 10.9 ms, a gradient of 4 x 3 after 0.3 of it and one of 4 after
/// all of it; 0.2 ms of update.
Json three_steps() {
    Json all = Json::array();
    for (const auto& [number, begin, dur] :
         {std::tuple{5, 0.0, 1000.0}, {6, 2000.0, 3000.0}, {7, 10'000.0, 1200.0}})
        all.push_back(
            event("user_annotation", "ProfilerStep#" + std::to_string(number), begin, dur));
    all.push_back(function("AddmmBackward0", 10'400, 100));
    all.push_back(function("torch::autograd::AccumulateGrad", 10'530, 30));
    all.push_back(gradient(10'540, 10, Json::array({Json::array({4, 3})})));
    all.push_back(function("ReluBackward0", 10'600, 200));
    all.push_back(function("torch::autograd::AccumulateGrad", 10'870, 30));
    all.push_back(gradient(10'880, 20, Json::array({Json::array({4})})));
    all.push_back(event("user_annotation", "Optimizer.step#SGD.step", 10'950, 200));
    return all;
}

// ---- Cases worked by hand -----------------------------------------------------------
TEST(Trace, PartsOfTheMedianStep) {
    const MeasuredStep m = read(three_steps());
    EXPECT_EQ(m.number, 7);
    EXPECT_FALSE(m.gpu);
    EXPECT_DOUBLE_EQ(m.step_ms, 1.2);
    EXPECT_NEAR(m.forward_ms, 0.4, 1e-9);
    EXPECT_NEAR(m.backward_ms, 0.5, 1e-9);
    EXPECT_NEAR(m.update_ms, 0.2, 1e-9);
    ASSERT_EQ(m.gradients.size(), 2u);
    EXPECT_EQ(m.gradients[0].elements, 12);
    EXPECT_NEAR(m.gradients[0].ready, 0.3, 1e-9);
    EXPECT_EQ(m.gradients[1].elements, 4);
    EXPECT_NEAR(m.gradients[1].ready, 1, 1e-9);
    ASSERT_EQ(m.backward.size(), 2u);
    EXPECT_EQ(m.backward[1].name, "ReluBackward0");
    EXPECT_NEAR(m.backward[1].ms, 0.2, 1e-9);
}
/// One step from 0 to 2 ms of two micro-batches: forward 0.3 ms, backward 0.5 and 0.6 ms with the
/// gradients of 12 and of 4 elements, forward 0.2 ms between them. In the second backward a part
/// of forward is computed again, whose functions have later numbers.
Json two_micro_batches() {
    Json all = Json::array({event("user_annotation", "ProfilerStep#1", 0, 2000)});
    for (const auto& [begin, end, sequence] : {std::tuple{300.0, 800.0, 9}, {1000.0, 1600.0, 19}}) {
        all.push_back(function("RecomputedBackward", begin, 200, sequence));
        if (sequence > 9) all.push_back(function("AddmmBackward0", begin + 50, 50, 29));
        all.push_back(function("ReluBackward0", begin + 200, 50, sequence - 1));
        all.push_back(function("torch::autograd::AccumulateGrad", begin + 260, 30));
        all.push_back(gradient(begin + 270, 30, Json::array({Json::array({4, 3})})));
        all.push_back(function("torch::autograd::AccumulateGrad", end - 50, 50));
        all.push_back(gradient(end - 40, 40, Json::array({Json::array({4})})));
    }
    all.push_back(event("user_annotation", "Optimizer.step#SGD.step", 1700, 200));
    return all;
}
TEST(Trace, GradientsOfMicroBatchesCountOnce) {
    const MeasuredStep m = read(two_micro_batches());
    EXPECT_EQ(m.micro_batches, 2);
    EXPECT_NEAR(m.forward_ms, 0.25, 1e-9);
    EXPECT_NEAR(m.backward_ms, 0.55, 1e-9);
    EXPECT_NEAR(m.update_ms, 0.2, 1e-9);
    EXPECT_EQ(m.elements(), 16);
    ASSERT_EQ(m.gradients.size(), 2u);
    EXPECT_NEAR(m.gradients[0].ready, 0.5, 1e-9);
    EXPECT_NEAR(m.gradients[1].ready, 1, 1e-9);
}
/// On a GPU: forward 0.1 to 0.4, backward 0.4 to 1.0, forward 1.0 to 1.3, backward 1.3 to 1.9 with
/// its first gradient's kernel done at 1.7, update 1.9 to 2.2 ms.
TEST(Trace, KernelsOfMicroBatchesAreSummedApart) {
    Json all = two_micro_batches();
    int id = 0;
    for (const auto& [launched, begin, dur] : {std::tuple{50.0, 100.0, 300.0},
                                               {310.0, 400.0, 600.0},
                                               {850.0, 1000.0, 300.0},
                                               {1010.0, 1300.0, 400.0},
                                               {1560.0, 1700.0, 200.0},
                                               {1710.0, 1900.0, 300.0}}) {
        all.push_back(
            event("cuda_runtime", "cudaLaunchKernel", launched, 5, {{"correlation", ++id}}));
        all.push_back(event("kernel", "k", begin, dur, {{"correlation", id}}));
    }
    const MeasuredStep m = read(all);
    EXPECT_EQ(m.micro_batches, 2);
    EXPECT_NEAR(m.forward_ms, 0.3, 1e-9);
    EXPECT_NEAR(m.backward_ms, 0.6, 1e-9);
    EXPECT_NEAR(m.update_ms, 0.3, 1e-9);
    ASSERT_EQ(m.gradients.size(), 2u);
    EXPECT_NEAR(m.gradients[0].ready, 0.4 / 0.6, 1e-9);
    EXPECT_NEAR(m.gradients[1].ready, 1, 1e-9);
    EXPECT_NEAR(m.gap_ms, 0, 1e-9);
}
/// A parameter of one number has no sides.
TEST(Trace, AScalarParameterIsOneElement) {
    Json all = three_steps();
    all.push_back(gradient(10'700, 10, Json::array({Json::array()})));
    const MeasuredStep m = read(all);
    ASSERT_EQ(m.gradients.size(), 3u);
    EXPECT_EQ(m.gradients[1].elements, 1);
}
/// Kernels run later than the host launches them: forward 10.5 to 10.7, a gap of 0.1 ms, backward
/// 10.8 to 11.8 with the first gradient's kernel done at 11.4, update 11.8 to 11.9.
TEST(Trace, OnAGpuTheKernelsCount) {
    Json all = three_steps();
    const auto kernel = [&](int id, double launched, double begin, double dur) {
        all.push_back(
            event("cuda_runtime", "cudaLaunchKernel", launched, 5, {{"correlation", id}}));
        all.push_back(event("kernel", "k", begin, dur, {{"correlation", id}}));
    };
    kernel(1, 10'100, 10'500, 200);
    kernel(2, 10'410, 10'800, 600);
    kernel(3, 10'610, 11'400, 400);
    kernel(4, 10'960, 11'800, 100);
    const MeasuredStep m = read(all);
    EXPECT_TRUE(m.gpu);
    EXPECT_NEAR(m.forward_ms, 0.3, 1e-9);  // until backward's first kernel
    EXPECT_NEAR(m.backward_ms, 1, 1e-9);
    EXPECT_NEAR(m.update_ms, 0.1, 1e-9);
    EXPECT_NEAR(m.gap_ms, 0.1, 1e-9);
    EXPECT_NEAR(m.gradients[0].ready, 0.6, 1e-9);
    EXPECT_NEAR(m.gradients[1].ready, 1, 1e-9);
    EXPECT_NEAR(m.backward[0].ms, 0.6, 1e-9);
}

// ---- What is refused ----------------------------------------------------------------
TEST(Trace, OfTimesThatCannotBeNamesTheEvent) {
    Json all = three_steps();
    all.back()["dur"] = -5;
    EXPECT_TRUE(holds(refusal(all),
                      "t.json: event 'Optimizer.step#SGD.step' begins at 10950 us and "
                      "lasts -5 us: expected 0 to 1e+14 us"));
    all.back()["dur"] = 1e300;
    EXPECT_TRUE(holds(refusal(all), "lasts 1e+300 us"));
    all.back()["dur"] = 200;
    for (int i = 0; i < 9; ++i) all.push_back(all.back());
    EXPECT_TRUE(holds(refusal(all), "ProfilerStep#7: updates of 2.000 ms in a step of 1.200"));
    Json instants = three_steps();
    for (Json& e : instants) e["ts"] = 0, e["dur"] = 0;
    EXPECT_TRUE(holds(refusal(instants), "it takes no time"));
}
TEST(Trace, AStepHasANumber) {
    for (const char* number : {"", "x", "-1", "7 ", "99999999999999999999"}) {
        Json all = three_steps();
        all[2]["name"] = "ProfilerStep#" + std::string(number);
        EXPECT_TRUE(holds(refusal(all), "t.json: ProfilerStep#" + std::string(number) +
                                            ": expected 'ProfilerStep#' and a number from 0"));
    }
}
TEST(Trace, AGradientHasNoMoreElementsThanCanBeCounted) {
    Json all = three_steps();
    for (Json& e : all)
        if (e["args"].contains("Input Dims"))
            e["args"]["Input Dims"] = Json::array({Json::array({10'000'000'000, 10'000'000'000})});
    EXPECT_TRUE(holds(refusal(all), "record_shapes=True"));
    const auto sides = [&](std::int64_t n) {
        for (Json& e : all)
            if (e["args"].contains("Input Dims"))
                e["args"]["Input Dims"] = Json::array({Json::array({n})});
    };
    sides(std::int64_t{1} << 53);  // of each
    EXPECT_TRUE(holds(refusal(all), "ProfilerStep#7: gradients of more than 2^53 elements"));
    sides(0);
    EXPECT_TRUE(holds(refusal(all), "ProfilerStep#7: gradients of 0 elements"));
}
TEST(Trace, WithoutWhatIsNeededNamesTheOption) {
    EXPECT_TRUE(holds(error_of([] { (void)read_trace("{", "t.json"); }), "t.json"));
    EXPECT_TRUE(holds(error_of([] { (void)read_trace("[1]", "t.json"); }), "t.json",
                      "export_chrome_trace"));
    Json no_steps = Json::array();
    for (const Json& e : three_steps())
        if (!e["name"].get<std::string>().starts_with("ProfilerStep")) no_steps.push_back(e);
    EXPECT_TRUE(holds(refusal(no_steps), "t.json", "ProfilerStep#", "torch.profiler.schedule"));
    const auto without = [](const std::string& name) {
        Json some = Json::array();
        for (const Json& e : three_steps())
            if (e["name"] != name) some.push_back(e);
        return some;
    };
    EXPECT_TRUE(holds(refusal(without("torch::autograd::AccumulateGrad")), "ProfilerStep#7",
                      "no gradient", "backward()"));
    EXPECT_TRUE(holds(refusal(without("Optimizer.step#SGD.step")), "ProfilerStep#7",
                      "Optimizer.step#", "whole steps"));
    Json bare = three_steps();
    for (Json& e : bare) e.erase("args");
    EXPECT_TRUE(holds(refusal(bare), "Input Dims", "record_shapes=True"));
    Json unlaunched = three_steps();
    unlaunched.push_back(event("kernel", "k", 10'500, 100, {{"correlation", 9}}));
    EXPECT_TRUE(holds(refusal(unlaunched), "cuda_runtime", "ProfilerActivity.CUDA"));
}
/// A step that waits for other GPUs: their time would be taken for this one's.
TEST(Trace, OfSeveralGpusIsRefused) {
    const auto add_kernel = [](Json& to, int id, const char* name, double begin, int device) {
        to.push_back(
            event("cuda_runtime", "cudaLaunchKernel", begin - 50, 5, {{"correlation", id}}));
        to.push_back(event("kernel", name, begin, 40, {{"correlation", id}, {"device", device}}));
    };
    Json one = three_steps();
    add_kernel(one, 1, "k", 10'100, 2);
    add_kernel(one, 2, "k", 10'500, 2);
    add_kernel(one, 3, "k", 11'010, 2);
    for (Json& e : one) e["pid"] = e["cat"] == "kernel" ? 2 : 100;  // as Kineto writes it
    EXPECT_TRUE(read(one).gpu);
    for (const char* name : {"ncclDevKernel_AllReduce_Sum_f32_RING_LL",
                             "ncclKernel_Broadcast_RING_LL_Sum_int8_t", "rcclGenericKernel"}) {
        Json all = one;
        add_kernel(all, 4, name, 10'800, 2);
        all.back()["name"] = std::string(name) + "(ncclDevKernelArgsStorage<4096ul>)";
        EXPECT_TRUE(holds(refusal(all), "t.json: ProfilerStep#7: kernel '" + std::string(name) +
                                            "' exchanges data: expected a step that one GPU does "
                                            "alone: trace one GPU without "
                                            "DistributedDataParallel"));
    }
    Json devices = one;
    add_kernel(devices, 4, "k", 10'800, 3);
    EXPECT_TRUE(holds(refusal(devices), "t.json: ProfilerStep#7: kernels of devices 2 and 3",
                      "without DistributedDataParallel"));
    for (Json& e : devices) {  // their processes tell, which Kineto numbers by device
        if (e["cat"] != "kernel") continue;
        e["pid"] = e["args"]["device"];
        e["args"].erase("device");
    }
    EXPECT_TRUE(holds(refusal(devices), "t.json: ProfilerStep#7: kernels of devices 2 and 3"));
    Json texts = one;
    add_kernel(texts, 4, "k", 10'800, 3);
    for (Json& e : texts)
        if (e["cat"] == "kernel") {
            e["pid"] = e["args"]["device"].dump();
            e["args"]["device"] = e["pid"];
        }
    EXPECT_TRUE(holds(refusal(texts), "t.json: ProfilerStep#7: kernels of devices 2 and 3"));
    Json ranks = one;
    for (Json e : one)
        if (e["pid"] == 100) e["pid"] = 200, ranks.push_back(e);
    EXPECT_TRUE(holds(refusal(ranks), "t.json: ProfilerStep#7: operators of processes 100 and 200",
                      "without DistributedDataParallel"));
}
/// torch.distributed may be in use, and a step still be one process's alone.
TEST(Trace, CollectivesOfSeveralProcessesAreRefused) {
    const auto error = [](const Json& events, const Json& processes) {
        Json file{{"traceEvents", events}};
        if (!processes.is_null())
            file["distributedInfo"] = {{"backend", "gloo"}, {"world_size", processes}};
        return error_of([&] { (void)read_trace(file.dump(), "t.json"); });
    };
    EXPECT_EQ(error(three_steps(), 4), "no error");
    EXPECT_EQ(error(three_steps(), nullptr), "no error");
    for (const std::string name : {"gloo:all_reduce", "nccl:all_reduce", "mpi:all_reduce",
                                   "ucc:all_reduce", "xccl:all_reduce", "record_param_comms",
                                   "c10d::allreduce_", "DistributedDataParallel.forward"})
        for (const double begin : {10'600.0, 9'990.0, 11'180.0}) {  // also across either end
            Json all = three_steps();
            all.push_back(event("cpu_op", name, begin, 50));
            const std::string found = "t.json: ProfilerStep#7: '" + name + "' in a run ";
            EXPECT_EQ(error(all, 1), "no error");
            EXPECT_EQ(error(all, "1"), "no error");
            EXPECT_TRUE(
                holds(error(all, 4), found + "of 4 processes", "without DistributedDataParallel"));
            EXPECT_TRUE(holds(error(all, "8"), found + "of 8 processes"));
            for (const Json& unsaid : {Json(), Json("many"), Json::array({8})})
                EXPECT_TRUE(holds(error(all, unsaid), found + "that says no 'world_size' of 1"));
        }
    Json beside = three_steps();  // in another step, or between two
    beside.push_back(event("cpu_op", "gloo:all_reduce", 9'900, 100));
    beside.push_back(event("cpu_op", "gloo:all_reduce", 2'500, 100));
    EXPECT_EQ(error(beside, 4), "no error");
}
/// Inside of such a function the inputs of the checkpointed part get gradients, as parameters do.
TEST(Trace, ReentrantCheckpointsAreRefused) {
    Json all = three_steps();
    all.push_back(function("CheckpointFunctionBackward", 10'550, 200));
    all.push_back(gradient(10'700, 10, Json::array({Json::array({256, 512})})));
    EXPECT_TRUE(holds(refusal(all), "t.json: ProfilerStep#7: 'CheckpointFunctionBackward'",
                      "activations", "checkpoint with use_reentrant=False"));
}

// ---- A V100 -------------------------------------------------------------------------
std::string published() {
    return std::filesystem::path(GX_PUBLISHED_CASES)
        .replace_filename("v100_resnet50_trace.json.gz");
}
std::string unpacked(const std::string& file) {
    const auto bytes = gx::read_whole_file(file);
    return {bytes.begin(), bytes.end()};
}
/// ResNet-50, batch 32, fp32, packed as export_chrome_trace() does for a name that ends in .gz.
/// Oracle: reference/oracle/kineto_excerpt.py, which reads the profiler's file by times alone.
TEST(Trace, OfAV100) {
    const MeasuredStep m = read_trace(gx::read_file(published()), published());
    EXPECT_EQ(m.number, 19);
    EXPECT_TRUE(m.gpu);
    EXPECT_EQ(m.micro_batches, 1);
    EXPECT_NEAR(m.step_ms, 151.733, 1e-9);
    EXPECT_NEAR(m.forward_ms, 47.910, 1e-9);
    EXPECT_NEAR(m.backward_ms, 66.022, 1e-9);
    EXPECT_NEAR(m.update_ms, 1.856, 1e-9);
    EXPECT_NEAR(m.gap_ms, 17.208, 1e-9);
    EXPECT_EQ(m.elements(), 25'557'032);
    ASSERT_EQ(m.gradients.size(), 161u);
    EXPECT_EQ(m.gradients[0].elements, 1000) << "the bias of the last layer";
    EXPECT_NEAR(m.gradients[0].ready, 0.006558, 1e-6);
    EXPECT_NEAR(m.gradients[80].ready, 0.410151, 1e-6);
    EXPECT_NEAR(m.gradients.back().ready, 0.999970, 1e-6);
    EXPECT_EQ(m.backward.front().name, "NllLossBackward");
    double layers = 0;
    for (const MeasuredStep::Layer& layer : m.backward) layers += layer.ms;
    EXPECT_LE(layers, m.backward_ms) << "kernels of one stream";
    EXPECT_GE(layers, m.backward_ms - m.gap_ms - 0.5) << "sums of gradients are none's";
}
/// Without them the functions of backward can't be told: so are those of January 2021 in Kineto.
TEST(Trace, WithoutThreadsOfForwardNamesWhatRecordsThem) {
    Json all = Json::parse(unpacked(published())).at("traceEvents");
    for (Json& e : all) e["args"].erase("Fwd thread id");
    EXPECT_TRUE(holds(refusal(all), "ProfilerStep#19: no function of backward",
                      "a PyTorch that records 'Fwd thread id'"));
}
TEST(Trace, PackedAndCutOffIsNamed) {
    const testing_support::Folder folder;
    const std::string file = (folder / "t.json.gz").string(), text = gx::read_file(published());
    gx::write_file(file, text.substr(0, text.size() / 2));
    EXPECT_TRUE(holds(error_of([&] { (void)read_trace(gx::read_file(file), file); }), "t.json.gz",
                      "ends before its check sum"));
}
/// Once read, whether from a file or a pipe, and in as many members as there are.
TEST(Trace, PackedIsReadWithoutItsFile) {
    const std::string text = unpacked(published());
    const MeasuredStep m = read_trace(gx::read_file(published()), "/dev/fd/63");
    EXPECT_EQ(m.step_ms, read_trace(text, "t.json").step_ms);
    EXPECT_EQ(m.elements(), read_trace(text, "t.json").elements());
}

/// Two networks that take turns, as a generator and its judge, are not one whose step is planned.
TEST(Trace, PassesOfDifferentGradientsAreRefused) {
    Json all = two_micro_batches();
    all.push_back(gradient(1580, 10, Json::array({Json::array({9})})));
    EXPECT_TRUE(holds(refusal(all), "t.json", "ProfilerStep#1", "2 and 3 gradients"));
}
/// Chrome's format leaves fields to who writes them.
TEST(Trace, FieldsThatAreNoTextAreSkipped) {
    Json all = three_steps();
    all.push_back({{"ph", 1}, {"ts", 10'000}, {"dur", 1}});
    all.push_back({{"ph", "X"}, {"name", 5}, {"cat", nullptr}, {"ts", 10'000}, {"dur", 1}});
    EXPECT_EQ(read(all).elements(), 16);
}
/// Gradients of another step are not this one's.
TEST(Trace, OfAnotherStepIsRefused) {
    Json all = three_steps();
    for (Json& e : all)
        if (e["cat"] == "cpu_op") e["ts"] = e["ts"].get<double>() + 50'000;
    EXPECT_TRUE(holds(refusal(all), "ProfilerStep#7", "no gradient"));
}

}  // namespace

// Train in fp16 without a loss scale and with one: a last layer that starts small makes all
// gradients behind it so small that fp16 stores them as 0, until a loss scale lifts them. A fixed
// one of 1024 ends in overflows when the network has learnt, so this one is dynamic.
// Run:     build/dev/examples/11_fp16_training
// Prints:  fp32                         test 90.0 %
//          fp16                         test 49.5 %
//          fp16 and DynamicLossScale    test 89.0 %, 3 steps skipped, scale 128 at the end

#include <cstdio>  // printf
#include <string>  // names

#include <gx/loader/synthetic.hpp>    // synthetic
#include <gx/model/compute.hpp>       // Compute
#include <gx/model/layers.hpp>        // Network
#include <gx/optimizer/lamb.hpp>      // Lamb
#include <gx/reducer/ring.hpp>        // Ring
#include <gx/reference/device.hpp>    // Device
#include <gx/scheduler/cosine.hpp>    // Cosine
#include <gx/threads/threads.hpp>     // Threads
#include <gx/trainer/loss_scale.hpp>  // StaticLossScale, DynamicLossScale
#include <gx/trainer/trainer.hpp>     // Trainer

using namespace gx;

struct Net : Network<ImageShape{1, 8, 8}, 10, Linear<16, Bias::no>, ReLU, Linear<16, Bias::no>,
                     ReLU, Linear<10, Bias::no>> {
    static constexpr std::string_view name = "Net";
};

/// Large batches by Lamb, whose steps are in proportion to the weights: the last layer's stay small
/// for long. Gradients behind it are about 1e-5 / 1024; fp16 stores what is below 3e-8 as 0.
template <class E, class Scale>
RunRecord train(const Split& images) {
    const Trainer<Net, Ring<fp32>, Cosine, Lamb, Compute<E>, Scale> trainer(
        {.batch = 1024,
         .epochs = 30,
         .weights = {.last_deviation = 1e-5},
         .scheduler = {.peak_rate = 0.07f},
         .optimizer = {.weight_decay = 0}});
    Threads<1, reference::Device> thread;
    return trainer.train(thread, images);
}

int main() {
    const Split images = synthetic(
        {.shape = {1, 8, 8}, .classes = 10, .train_count = 4096, .test_count = 200, .noise = 40});
    const auto print = [](const char* name, const RunRecord& run, const std::string& more = "") {
        std::printf("%-28s test %.1f %%%s\n", name, run.test_accuracy_pct(), more.c_str());
    };
    print("fp32", train<fp32, StaticLossScale>(images));
    print("fp16", train<fp16, StaticLossScale>(images));  // of factor 1
    const RunRecord scaled = train<fp16, DynamicLossScale>(images);
    print("fp16 and DynamicLossScale", scaled,
          ", " + std::to_string(scaled.skipped_steps) + " steps skipped, scale " +
              std::to_string(int(scaled.steps.back().loss_scale)) + " at the end");
}

// Lose a GPU in the middle of a run: the fault is simulated, and the trainer goes on with the three
// that are left, once from what they hold, once from the newest checkpoint.
// Run:     build/dev/examples/10_lost_rank
// Prints:  recovery     GPUs left  on from step  steps made  loss  seconds
//          survivors            3            14          39  0.79    0.119
//          checkpoint           3             8          41  0.75    0.122

#include <unistd.h>  // getpid

#include <chrono>       // the moment of the fault
#include <cstdio>       // printf
#include <filesystem>   // the checkpoints
#include <string>       // its folder
#include <string_view>  // a name

#include <gx/loader/synthetic.hpp>                // images without files
#include <gx/model/layers.hpp>                    // Network
#include <gx/reducer/ring.hpp>                    // Ring
#include <gx/reference/device.hpp>                // the numbers
#include <gx/scheduler/constant.hpp>              // Constant
#include <gx/sim/catalog/simple_clusters.hpp>     // ethernet_10g
#include <gx/sim/fault/faults.hpp>                // DeadGpu
#include <gx/sim/world/cluster.hpp>               // Cluster
#include <gx/sim/world/device.hpp>                // the time
#include <gx/survival/continue_on_survivors.hpp>  // ContinueOnSurvivors
#include <gx/trainer/trainer.hpp>                 // Trainer

using namespace gx;
using namespace std::chrono_literals;

struct Net
    : Network<ImageShape{1, 8, 8}, 4, Conv<8, 3>, BatchNorm, ReLU, GlobalAvgPool, Classifier> {
    static constexpr std::string_view name = "Net";
};
using Run = Trainer<Net, Ring<fp32>, Constant, ContinueOnSurvivors>;

void train(const char* name, Recovery recovery, const Split& images) {
    const std::filesystem::path folder =
        std::filesystem::temp_directory_path() / ("gx_10_lost_rank_" + std::to_string(::getpid()));
    std::filesystem::remove_all(folder);
    Run::Options o{.batch = 8, .epochs = 4, .evaluate = false};
    o.survival.recovery = recovery;
    if (recovery == Recovery::checkpoint) o.output = folder;

    // Rank 2 dies without a word; the others wait for it until the deadline.
    sim::Cluster<reference::Device> cluster(
        sim::ethernet_10g(4),
        {.deadline = 100ms, .faults = sim::FaultList{sim::DeadGpu{.rank = 2, .at = 8ms}}});
    const RunRecord run = Run(o).train(cluster, images);
    std::filesystem::remove_all(folder);

    const LossRow& loss = run.losses.at(0);
    std::printf("%-11s %10d %13lld %11zu %5.2f %8.3f\n", name, loss.ranks,
                static_cast<long long>(loss.step), run.steps.size(), run.epochs.back().train_loss,
                run.seconds);
}

int main() {
    const Split images =
        synthetic({.shape = {1, 8, 8}, .classes = 4, .train_count = 256, .test_count = 0});
    std::printf("recovery     GPUs left  on from step  steps made  loss  seconds\n");
    train("survivors", Recovery::survivors, images);
    train("checkpoint", Recovery::checkpoint, images);
}

// One rank of a run that a launcher starts: trains over doubles of its GPU and of NCCL, beside the
// same training on threads, and writes how it ended.
// Run:    torchrun --no-python --nproc-per-node 3 plugins.nccl.launched_rank FOLDER [KILLED [on]]
// Writes: FOLDER/RANK: "rank 1 of 3 by torchrun: the weights of threads", or the error. Rank KILLED
//         dies in step 4, and "on" lets the others go on: "rank 0 of 3 by mpirun: went on as one of
//         2, without rank 1".
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>

#include <gx/cuda_testing/host_computed.hpp>
#include <gx/cuda_testing/runtime.hpp>
#include <gx/nccl/launched_world.hpp>
#include <gx/nccl_testing/nccl.hpp>
#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/multi_ring.hpp>
#include <gx/survival/continue_on_survivors.hpp>
#include <gx/threads/threads.hpp>
#include <gx/trainer/trainer.hpp>
#include <trainer/small.hpp>

namespace {

using namespace gx;
using Computed = cuda_testing::HostComputed<reference::Device>;

int own = -1, killed = -1;  // ranks, as they were launched

struct Mortal : Computed {
    Mortal(cuda::DeviceContext& gpu, const Graph& graph, const DeviceOptions& o)
        : Computed(gpu, graph, o) {}
    void forward(Mode mode, View<ForwardReport> report) {
        if (mode == Mode::train && step++ == 4 && own == killed) std::raise(SIGKILL);
        Computed::forward(mode, report);
    }
    int step = 0;
};

std::string go_on(const coordination::Launch& launch, const std::string& folder) {
    using T = Trainer<testing_support::Net, Ring<fp32>, Constant, ContinueOnSurvivors>;
    T::Options options{.batch = 3, .epochs = 2, .output = folder};
    options.survival.recovery = Recovery::checkpoint;
    const T trainer(options);
    nccl::LaunchedWorld<Mortal> gpus({.launch = launch});
    const RunRecord record = trainer.train(gpus, testing_support::images());
    std::string text = "rank " + std::to_string(launch.rank) + " of " +
                       std::to_string(launch.ranks) + " by " + launch.launcher + ":";
    for (const LossRow& row : record.losses)
        text += " went on as one of " + std::to_string(row.ranks) + ", without rank " +
                std::to_string(row.lost.at(0));
    return text;
}

std::string train(const coordination::Launch& launch) {
    const Trainer<testing_support::Net, Bucketed<MultiRing<2, fp16>, 64>, Warmup<Poly<2>>> trainer(
        {.batch = 3, .epochs = 2, .seed = 3});
    const Split data = testing_support::images();
    nccl::LaunchedWorld<Mortal> gpus({.launch = launch});
    const RunRecord record = trainer.train(gpus, data);
    ThreadWorld<reference::Device> threads({.placement = gpus.placement()});
    const bool same = trainer.train(threads, data).weights_hash == record.weights_hash;
    return "rank " + std::to_string(launch.rank) + " of " + std::to_string(launch.ranks) + " by " +
           launch.launcher + (same ? ": the weights of threads" : ": other weights than threads");
}

}  // namespace

int main(int count, char** arguments) {
    if (count < 2) return 2;
    if (count > 2) killed = std::atoi(arguments[2]);
    std::signal(SIGTERM, SIG_IGN);  // launchers end the others, too: this one says what it saw
    cuda_testing::reset({.check_at_exit = false});
    nccl_testing::set_options({.processes = true});
    std::string text, name = "unknown";
    int status = 0;
    try {
        const coordination::Launch launch = coordination::launch_from_environment();
        own = launch.rank;
        name = std::to_string(own);
        const std::string folder = std::string(arguments[1]) + "/checkpoints";
        text = count > 3 ? go_on(launch, folder) : train(launch);
        cuda_testing::expect_clean();
    } catch (const std::exception& e) {
        text = e.what();
        status = 1;
    }
    std::ofstream(std::string(arguments[1]) + "/" + name) << text;
    return status;
}

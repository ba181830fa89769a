// DemoWorld: where gx_demo trains: a simulated cluster, or the processes of an MPI job, where it is
// compiled as gx_demo_openmpi or gx_demo_mpich.
#pragma once

#include <string>  // sentences

#include <CLI/CLI.hpp>   // App
#include <fmt/format.h>  // sentences

#include <gx/core/world.hpp>               // is_root
#include <gx/reducer/double_buffered.hpp>  // DoubleBuffered
#include <gx/reducer/multi_ring.hpp>       // MultiRing
#include <gx/reducer/ring.hpp>             // Ring

#include <gx/onednn/device.hpp>  // the numbers

#include "../../sims/support/command_line.hpp"  // number_in
#if defined(GX_ON_MPI)
#include <gx/mpi/world.hpp>              // World
#include <gx/shared_memory/reducer.hpp>  // SharedMemory
#else
#include <gx/model/resnet.hpp>                 // ResNet50: what the clock is charged for
#include <gx/sim/catalog/simple_clusters.hpp>  // ethernet_10g
#include <gx/sim/world/cluster.hpp>            // Cluster
#include <gx/sim/world/device.hpp>             // the time
#endif

// Sums are split into lanes, by default one per core. Two on every machine, so that accuracies do
// not depend on the number of cores; they still do on the CPU's vector instructions.
struct TwoLanes : gx::onednn::Device {
    TwoLanes(const gx::Graph& graph, gx::DeviceOptions options)
        : Device(graph, options, {.lanes = 2}) {}
};

#if defined(GX_ON_MPI)

/// All processes of an MPI job.
class DemoWorld {
public:
    static constexpr const char* title = "One network, four reducers, a rank for each process.";
    static constexpr int batch = 64;
    /// This world has no options of its own.
    struct Options {
        void add_to(CLI::App&) {}
    };
    DemoWorld(const Options&, std::uint64_t) {}

    [[nodiscard]] bool is_root() const { return gx::is_root(ranks_); }
    [[nodiscard]] std::string opening() const {
        return fmt::format("ResNet-8 is trained on {} ranks.", ranks_.ranks());
    }
    /// f.operator()<R>() for each reducer.
    template <class F>
    static void for_each_reducer(F f) {
        f.template operator()<gx::Ring<gx::fp32>>();
        f.template operator()<gx::MultiRing<4, gx::fp16>>();
        f.template operator()<gx::DoubleBuffered<gx::MultiRing<4, gx::fp16>>>();
        f.template operator()<gx::SharedMemory<gx::fp32>>();
    }
    template <class Trainer>
    [[nodiscard]] gx::RunRecord train(const Trainer& trainer, const gx::Split& data) {
        return trainer.train(ranks_, data);
    }
    [[nodiscard]] std::string closing() const {
        const int machines = ranks_.placement().machines;
        if (machines == 1)
            return "The ranks share one machine, where SharedMemory<fp32> reduces in one pass\n"
                   "over memory that all ranks have mapped; the others send messages.\n"
                   "./gx bench reduce measures both.\n";
        return fmt::format(
            "The ranks are on {} machines, where SharedMemory<fp32> sends messages, too: choose a "
            "ring.\n",
            machines);
    }

private:
    gx::mpi::World<TwoLanes> ranks_{};
};

#else

/// Eight simulated GPUs on 10 Gb/s Ethernet; a new cluster for each run.
class DemoWorld {
public:
    static constexpr const char* title =
        "One network, three compositions, eight simulated GPUs on 10 Gb/s Ethernet.";
    static constexpr int batch = 16;
    struct Options {
        int timed_batch = 64;
        double interference_pct = 20;  // fits of all-reduce stacks lie between 13 and 31
        void add_to(CLI::App& app) {
            app.add_option("--timed-batch", timed_batch,
                           "images per GPU and step in simulated time")
                ->check(gx::count_in(1, 1 << 20));
            app.add_option("--interference", interference_pct,
                           "percent that a kernel takes longer during communication")
                ->check(gx::number_in(0, 1000));
        }
    };
    DemoWorld(const Options& options, std::uint64_t seed) : options_(options), seed_(seed) {}

    [[nodiscard]] bool is_root() const { return true; }
    [[nodiscard]] std::string opening() const {
        return fmt::format(
            "ResNet-8 is trained;\nthe clock is charged for ResNet-50, {} images a GPU and step.",
            options_.timed_batch);
    }
    template <class F>
    static void for_each_reducer(F f) {
        f.template operator()<gx::Ring<gx::fp32>>();
        f.template operator()<gx::MultiRing<4, gx::fp16>>();
        f.template operator()<gx::DoubleBuffered<gx::MultiRing<4, gx::fp16>>>();
    }
    template <class Trainer>
    [[nodiscard]] gx::RunRecord train(const Trainer& trainer, const gx::Split& data) const {
        gx::sim::Cluster<TwoLanes> cluster(gx::sim::ethernet_10g(8),
                                           {.seed = seed_,
                                            .timed_as = gx::graph<gx::ResNet50>(),
                                            .timed_batch = options_.timed_batch,
                                            .overlap_slowdown = {options_.interference_pct / 100}});
        return trainer.train(cluster, data);
    }
    [[nodiscard]] std::string closing() const {
        return fmt::format(
            "Assumed: a kernel that starts while gradients are on the network takes {:.3g} % "
            "longer\n(fits of published all-reduce runs: 13 to 31 %); the input pipeline costs no "
            "time.\n",
            options_.interference_pct);
    }

private:
    Options options_;
    std::uint64_t seed_;
};

#endif

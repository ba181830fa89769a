// AWS: ResNet-50 on 64 V100, by a ring and by parameter servers, two for each worker machine.
#include <gx/model/resnet.hpp>                      // ResNet50
#include <gx/reducer/bucketed.hpp>                  // Bucketed
#include <gx/reducer/ring.hpp>                      // Ring
#include <gx/sim/catalog/find_machine.hpp>          // p3_16xlarge
#include <gx/sim/timing/parameter_server_time.hpp>  // served_step_time
#include <gx/sim/catalog/comm_stacks.hpp>           // nccl_2_5, tcp_aws
#include <gx/sim/timing/step_time.hpp>              // step_time

#include "support.hpp"

namespace {

using namespace gx;
using namespace gx::literals;
using scenario::Json;

constexpr int batch = 256;

sim::ClusterSpec machines(int n) {
    sim::ClusterSpec spec{.machine = sim::machine::p3_16xlarge(),
                          .machines = n,
                          .profile = sim::nccl_2_5 + sim::tcp_aws};
    spec.profile.transport.connections = 1;           // NCCL before 2.4.8, ps-lite
    spec.profile.transport.connection_cap = 10_Gbps;  // a placement group
    return spec;
}

/// The published case: one machine as its efficiency implies, 64 GPUs as its conditions say.
void add_published(scenario::Scenario& s, const char* what, const char* id, double one_node,
                   double pct, double rate, double within) {
    Json conditions = scenario::published(id).at("conditions");
    const auto r = scenario::predicted(
        conditions,
        Json::array(
            {{{"role", "base"}, {"gpus", 8}, {"nodes", 1}, {"value", one_node}, {"unit", "img/s"}},
             {{"role", "target"}, {"gpus", 64}, {"nodes", 8}}}));
    s.in_force(fmt::format("{}: {}", what, r.corrections));
    s.add({fmt::format("{}, 64 GPUs against 8", what), "%", pct, r.points.at(0).efficiency_pct,
           within});
    s.add({fmt::format("{}, 64 GPUs: rate", what), "img/s", rate, r.points.at(0).value});
}

template <class E>
double ring_rate(int n) {
    using Fused = Bucketed<Ring<E>, 64 * 1024 * 1024>;
    return sim::step_time<Fused>(graph<ResNet50>(), machines(n),
                                 {.batch = batch, .precision = sim::Precision::mixed})
        .images_per_second;
}

double served_rate(int n, int servers) {
    const Graph network = graph<ResNet50>();
    const sim::ClusterSpec spec = machines(n);
    const sim::TimedGraph kernels(network, spec.machine.gpu, sim::Precision::mixed);
    const auto t =
        sim::served_step_time(sim::step_work(network, kernels, batch), spec,
                              {.servers = servers, .own_nic = spec.nic_rate(), .element_bytes = 2});
    return batch * spec.ranks() / seconds(t.step);
}

scenario::Scenario make() {
    scenario::Scenario s("AWS: ResNet-50 v1b on 8 p3.16xlarge, batch 256 a GPU, mixed precision",
                         "AWS machine-learning blog, 2018-07-20, multi-node training on P3");
    add_published(s, "ring (Horovod)", "aws-64v100-tf-horovod", 5694, 90, 41'000, 5);
    add_published(s, "parameter servers", "aws-64v100-mxnet-ps", 5978, 92, 44'000, 6);
    s.in_force(
        "wire alone: profile nccl-2.5+tcp-aws, one connection of 10 Gb/s a pair; fusion of "
        "64 MiB; 16 servers with NICs of 25 Gb/s and no time to sum; kernels by "
        "roofline, no input");
    const auto against_one = [](auto rate) { return 100 * rate(8) / 8 / rate(1); };
    s.add({"wire alone, Ring<fp16>, against 8", "%", {}, against_one(ring_rate<fp16>)});
    s.add({"wire alone, Ring<fp32>, against 8", "%", {}, against_one(ring_rate<fp32>)});
    for (const int servers : {8, 16})
        s.add({fmt::format("wire alone, {} servers, fp16, against 8", servers),
               "%",
               {},
               against_one([&](int n) { return served_rate(n, servers); })});
    s.say(
        "The blog does not say in what type gradients travelled, nor what one machine reached: "
        "its rate is taken from the stated efficiency. On the wire alone two servers a worker "
        "hide all of it; the published 8 % are then the input's or the servers' own: the source "
        "does not say, and the stack's constants know only 2 of them. A single "
        "ring over one connection a pair would lose far more than the published 10 %: NCCL "
        "opened several channels.");
    return s;
}

}  // namespace

int main(int argc, char** argv) { return gx::scenario::run(argc, argv, "aws_64_v100", make); }

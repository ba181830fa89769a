#include <tools/predict/stack.hpp>

#include <algorithm>  // max, min
#include <array>      // tables
#include <cmath>      // sqrt: exact in IEEE arithmetic, unlike exp or log
#include <utility>    // pair

#include <gx/core/error.hpp>            // Error
#include <gx/io/nearest.hpp>            // unknown_name
#include <tools/common/json.hpp>        // parse_json
#include <tools/common/text.hpp>        // has, states
#include <tools/data.hpp>               // stacks
#include <tools/predict/mechanism.hpp>  // find_mechanism

namespace gx::tools::predict {

namespace {

template <class Member>
using Named = std::pair<std::string_view, Member>;

constexpr std::array<Named<double Stack::*>, 5> costs{{{"step_ms", &Stack::step_ms},
                                                       {"mb_ms", &Stack::mb_ms},
                                                       {"machines_ms", &Stack::machines_ms},
                                                       {"jitter", &Stack::jitter},
                                                       {"interference", &Stack::interference}}};

using K = Calibration;
constexpr std::array<Named<Stack K::*>, 8> stacks{{{"tensorflow", &K::tensorflow},
                                                   {"mxnet", &K::mxnet},
                                                   {"pytorch", &K::pytorch},
                                                   {"oneflow", &K::oneflow},
                                                   {"chainer", &K::chainer},
                                                   {"local_servers", &K::local_servers},
                                                   {"servers", &K::servers},
                                                   {"key_value", &K::key_value}}};

constexpr std::array<Named<double K::*>, 17> constants{{{"pair_loss", &K::pair_loss},
                                                        {"clipping_mb_ms", &K::clipping_mb_ms},
                                                        {"tcp_share", &K::tcp_share},
                                                        {"omni_path_share", &K::omni_path_share},
                                                        {"grpc_share", &K::grpc_share},
                                                        {"server_window", &K::server_window},
                                                        {"peer_copy_share", &K::peer_copy_share},
                                                        {"micro_exposed", &K::micro_exposed},
                                                        {"tcp_flow_gbps", &K::tcp_flow_gbps},
                                                        {"rdma_share", &K::rdma_share},
                                                        {"host_path_gbps", &K::host_path_gbps},
                                                        {"host_path4_gbps", &K::host_path4_gbps},
                                                        {"host_copies_gbps", &K::host_copies_gbps},
                                                        {"host_mpi_gbps", &K::host_mpi_gbps},
                                                        {"micro_step_s", &K::micro_step_s},
                                                        {"decoded_images_s", &K::decoded_images_s},
                                                        {"cpu_sum_gbps", &K::cpu_sum_gbps}}};

constexpr std::array<std::string_view, 7> schemes{
    "fused", "buckets", "after_backward", "late", "local_servers", "servers", "key_value"};

/// data/stacks.json: the constants in force and those of them that a fit may move.
struct Data {
    Calibration in_force{};
    std::vector<Knob> knobs{};
};

Scheme scheme_named(std::string_view name) {
    return static_cast<Scheme>(std::find(schemes.begin(), schemes.end(), name) - schemes.begin());
}

Stack read_stack(const Json& row) {
    Stack s{.name = row.at("name").get<std::string>(),
            .source = row.at("source").get<std::string>()};
    s.scheme = scheme_named(row.at("scheme").get<std::string>());
    for (const auto& [name, cost] : costs) s.*cost = row.value(std::string(name), 0.0);
    s.bucket_mb = row.value("bucket_mb", s.bucket_mb);
    s.ethernet_gbps = row.value("ethernet_gbps", 0.0);
    return s;
}

const Data& data_of_stacks() {
    static const Data all = [] {
        const Json file = parse_json(data::stacks, "stacks.json");
        Data d;
        for (const auto& [name, stack] : stacks) {
            const Json& row = file.at("stacks").at(std::string(name));
            Stack& s = d.in_force.*stack = read_stack(row);
            const auto at_priors = row.value("costs", std::vector<std::string>());
            for (const auto& [cost, member] : costs) {
                if (std::ranges::find(at_priors, cost) == at_priors.end()) continue;
                const Json& prior = file.at("costs").at(std::string(cost));
                s.*member = prior.at("expected").get<double>();
                d.knobs.push_back({std::string(cost), s.*member, prior.at("spread").get<double>(),
                                   stack, member, nullptr});
            }
        }
        for (const auto& [name, member] : constants) {
            const Json& row = file.at("constants").at(std::string(name));
            const bool prior = row.contains("expected");
            const double value = row.at(prior ? "expected" : "value").get<double>();
            d.in_force.*member = value;
            if (prior)
                d.knobs.push_back({std::string(name), value, row.at("spread").get<double>(),
                                   nullptr, nullptr, member});
        }
        return d;
    }();
    return all;
}

/// A stack that does all as another one, but how gradients are exchanged.
Stack variant(Stack of, std::string_view name, Scheme scheme) {
    of.name = name;
    of.scheme = scheme;
    return of;
}

}  // namespace

const Calibration& calibrated() { return data_of_stacks().in_force; }

const std::vector<Knob>& knobs() { return data_of_stacks().knobs; }

Calibration priors() {
    Calibration k = calibrated();
    for (const Knob& n : knobs()) n.in(k) = n.expected;
    return k;
}

namespace {

/// The stack by the words of the conditions, as far as costs were fitted.
Stack fitted_stack(const Conditions& c, const Calibration& k) {
    const bool tensorflow = states(c.framework, "tensorflow") || states(c.framework, "keras") ||
                            c.framework.starts_with("tf");
    const bool torch = states(c.framework, "torch");
    const bool servers = states(c.collective, "parameter server");
    const bool mxnet = states(c.framework, "mxnet") || states(c.framework, "gluon");
    const std::string& how = c.collective.empty() ? c.framework : c.collective;
    if (states(c.option, "double buffering"))
        return variant(k.chainer, "chainermn-double-buffered", Scheme::late);
    if (states(c.framework, "chainer")) return k.chainer;
    const bool kvstore = (states(how, "kvstore") || states(how, "dist_")) &&
                         !states(how, "horovod");  // MXNet spells Horovod "kvstore=horovod"
    if (mxnet && (servers || kvstore)) return k.key_value;
    if (states(c.collective, "distributed_replicated") || states(c.collective, "on the workers"))
        return k.servers;
    if (servers) return states(c.transport, "grpc") ? k.servers : k.local_servers;
    if (tensorflow && !states(c.framework, "horovod") &&
        (states(c.collective, "replicated") || states(c.framework, "2017")))
        return k.local_servers;
    if (c.accumulates)
        return tensorflow ? variant(k.tensorflow, "tensorflow-accumulating", Scheme::after_backward)
                          : variant(k.pytorch, "pytorch-accumulating", Scheme::after_backward);
    if (tensorflow) return k.tensorflow;
    if (mxnet) return k.mxnet;
    if (states(c.framework, "oneflow")) return k.oneflow;
    if (torch && states(c.framework, "horovod"))
        return variant(k.pytorch, "pytorch-horovod", Scheme::fused);
    if (states(c.framework, "paddle") || states(c.framework, "horovod")) return k.tensorflow;
    // BERT as NVIDIA's container trains it reduces one flat gradient after backward.
    // Source: DeepLearningExamples PyTorch/LanguageModeling/BERT, allreduce_post_accumulation.
    if (states(c.framework, "container") && has(c.model, "bert"))
        return variant(k.pytorch, "pytorch-flat", Scheme::after_backward);
    return k.pytorch;
}

}  // namespace

Stack find_stack(const Conditions& c, const Calibration& k) {
    const Mechanism* m = find_mechanism(c.framework, c.model, c.collective);
    if (m == nullptr) {
        Stack s = fitted_stack(c, k);
        s.known = false;
        return s;
    }
    Stack s = fitted_stack(c, k);
    if (!m->scheme.empty()) s = variant(k.pytorch, m->name, scheme_named(m->scheme));
    s.known = m->timed;
    s.other =
        !m->like.empty() &&
        std::ranges::find(m->like, schemes[static_cast<std::size_t>(s.scheme)]) == m->like.end();
    s.traffic = m->traffic;
    s.modules = m->modules;
    if (m->bucket_mb > 0) s.bucket_mb = m->bucket_mb;
    if (m->fusion_mb > 0) s.fusion_mb = m->fusion_mb;
    if (m->cycle_ms > 0) s.cycle_ms = m->cycle_ms;
    return s;
}

Stack stack_named(std::string_view name) {
    const Calibration& k = calibrated();
    std::vector<std::string_view> known{"none"};
    for (const Stack* s : {&k.pytorch, &k.tensorflow, &k.mxnet, &k.oneflow}) {
        if (s->name == name) return *s;
        known.push_back(s->name);
    }
    if (name == "none") return {.name = "none", .source = "computation and wire alone"};
    throw Error(unknown_name("stack", name, known));
}

GpuScale gpu_scale(const sim::GpuSpec& gpu) {
    const double memory = std::min(1.5, 900 / (gpu.memory_bandwidth.count * 1e-9));
    return {memory, std::sqrt(std::min(1.0, memory))};
}

double expected_max(double n) {
    static constexpr std::array<double, 15> at_power{0,     0.564, 1.029, 1.424, 1.766,
                                                     2.070, 2.343, 2.594, 2.826, 3.043,
                                                     3.247, 3.440, 3.624, 3.799, 3.967};
    std::size_t i = 0;
    double low = 1;
    while (i + 2 < at_power.size() && 2 * low <= n) low *= 2, ++i;
    const double share = std::min(1.0, (n - low) / low);
    return at_power[i] + (at_power[i + 1] - at_power[i]) * std::max(0.0, share);
}

}  // namespace gx::tools::predict

// The seeded bugs, each with the reducer or the rule that it breaks.
#include <fuzz/burst.hpp>
#include <fuzz/seeded_bugs.hpp>
#include <fuzz/trial.hpp>

#include <gx/parameter_server/reducer.hpp>  // ParameterServer
#include <gx/reducer/ring.hpp>              // Ring
#include <gx/shared_memory/reducer.hpp>     // SharedMemory

namespace gx::sim::fuzz {

const std::vector<SeededBug>& seeded_bugs() {
    using namespace gx::testing;
    using R = Ring<fp32>;
    using Top = TopPercent<10>;
    static const std::vector<SeededBug> all{
        {"ignore-peers", "sends no message", {"IgnorePeers", trial<IgnorePeers<R>>}},
        {"drop-chunk",
         "leaves the last chunk as it was",
         {"DropLastChunk", trial<DropLastChunk<R>>}},
        {"scale-twice", "divides twice", {"ScaleTwice", trial<ScaleTwice<R>>}},
        {"stale-by-two",
         "returns the mean of two steps before",
         {"StaleByTwo", trial<StaleByTwo<R>>}},
        {"keep-residue", "adds some of the last reduction", {"KeepResidue", trial<KeepResidue<R>>}},
        {"drift",
         "rank 0 is a unit in the last place off",
         {"DriftOneRank", trial<DriftOneRank<R>>}},
        {"hide-overflow", "turns infinity into 0", {"HideOverflow", trial<HideOverflow<R>>}},
        {"claim-complete",
         "calls a broken reduction complete",
         {"ClaimComplete", trial<ClaimComplete<R>>}},
        {"forget-wait",
         "uses a message before it has come",
         {"ForgetAWait", trial<ForgetAWait<R>>}},
        {"hang", "retries forever after a failure", {"HangSilently", trial<HangSilently<R>>}},
        {"take-duplicates",
         "takes a second copy for the next message",
         {"Ring<fp32>", trial<R>},
         {.delivery = {.discard_duplicates = false}}},
        {"take-any-order",
         "takes what comes first for what is next",
         {"Burst", trial<Burst>},
         {.delivery = {.in_order = false}}},
        {"apply-twice",
         "applies a gradient twice after a restart",
         {"Ring<fp32>", trial<R>},
         {.apply_twice = true}},
        {"ready-early",
         "reports a piece as ready, and then writes it: only a race shows it",
         {"Ring<fp32>", trial<R>},
         {.ready_early = true}},
        {"free-stack",
         "messages pay nothing for their stack",
         {"Ring<fp32>", trial<R>},
         {.no_profile = true}},
        {"keep-lost-way",
         "sends over a NIC or switch that is lost",
         {"Ring<fp32>", trial<R>},
         {.delivery = {.reroute = false}}},
        {"drop-in-flight",
         "forgets what was on its way over a NIC or switch that is lost",
         {"Ring<fp32>", trial<R>},
         {.delivery = {.resend = false}}},
        {"serve-residue",
         "a server adds some of the last sum",
         {"KeepResidue", trial<KeepResidue<ParameterServer<fp32>>>}},
        {"shared-wait",
         "adds a contribution before it has come",
         {"ForgetAWait", trial<ForgetAWait<SharedMemory<fp32>>>}},
        {"drop-residual",
         "forgets what error feedback has kept",
         {"DropResidual", trial<DropResidual<Top>, tenth>}},
        {"keep-skipped",
         "keeps the residual of a skipped step",
         {"KeepSkipped", trial<KeepSkipped<Top>, tenth>}},
        {"send-less",
         "sends less of a bucket than it promises",
         {"TopK, 1 %", trial<TopPercent<1>, tenth>}},
        {"round-down",
         "quantises without a draw",
         {"RoundsDown", trial<gx::detail::quantized::TwoPhases<RoundsDown>, eight_bits>}},
        {"next-step",
         "quantises by the step of the next block",
         {"StepOfTheNextBlock",
          trial<gx::detail::quantized::TwoPhases<StepOfTheNextBlock>, eight_bits>}},
        {"keep-shard",
         "does not gather the other ranks' shards",
         {"KeepOwnShard", trial<KeepOwnShard<R>>}},
        {"late-mean",
         "averages local parameters an update too late",
         {"LocalSgd<Ring<fp32>, 3>", trial<LocalSgd<R, 3>, Promise{.period = 2}>}},
        {"forget-last-mean",
         "makes no mean of local parameters at the end of an epoch",
         {"ForgetLastMean", trial<ForgetLastMean<R, 4>, Promise{.period = 4}>}}};
    return all;
}

}  // namespace gx::sim::fuzz

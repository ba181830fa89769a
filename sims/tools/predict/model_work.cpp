#include <tools/predict/model_work.hpp>

#include <algorithm>  // any_of, clamp, find, max, min
#include <cmath>      // sqrt

#include <gx/io/nearest.hpp>                    // edit_distance, nearest_name
#include <gx/sim/catalog/find_model.hpp>        // models, plain
#include <gx/sim/timing/step_time.hpp>          // step_work
#include <tools/common/text.hpp>                // has, Word
#include <tools/predict/parameter_profile.hpp>  // profile_of, millions_in, states_width

namespace gx::tools::predict {

namespace {

using namespace sim;

/// The known model whose name opens `model`, the longest one: "resnet-50 v1.5" is ResNet-50. Else,
/// unless an profile's name does, one whose name is inside: "MLPerf ResNet-50".
const KnownModel* model_named(const std::string& model) {
    const KnownModel* opens = nullptr;
    const KnownModel* inside = nullptr;
    std::size_t longest_opening = 0, longest_inside = 0;
    for (const KnownModel& m : models) {
        const std::string name = sim::detail::find_model::plain(m.name);
        if (opens_with(model, name) && name.size() > longest_opening)
            opens = &m, longest_opening = name.size();
        if (holds(model, name) && name.size() > longest_inside)
            inside = &m, longest_inside = name.size();
    }
    const ParameterProfile* profile = profile_opening(model);
    if (profile == nullptr) return opens != nullptr ? opens : inside;
    return profile->name.size() > longest_opening ? nullptr : opens;
}

using sim::detail::find_model::plain;

/// Every known name in letters and digits: of graphs, then of profiles.
const std::vector<std::string>& known_names() {
    static const std::vector<std::string> all = [] {
        std::vector<std::string> names;
        for (const KnownModel& m : models) names.push_back(plain(m.name));
        for (const ParameterProfile& p : parameter_profiles()) names.push_back(p.name);
        return names;
    }();
    return all;
}
/// Whether a profile's networks have several sizes: known names go on behind its name, as
/// "resnet50" behind "resnet". A version ("mobilenetv2") counts where `model` states one too, a
/// backbone ("retinanetresnet50") never.
bool is_family(const std::string& profile, const std::string& model) {
    const bool states_version = holds(model, profile + "v");
    return std::ranges::any_of(known_names(), [&](const std::string& known) {
        if (known == profile || !opens_with(known, profile)) return false;
        const std::string behind = known.substr(profile.size());
        const bool version = behind[0] == 'v' && '0' <= behind[1] && behind[1] <= '9';
        if (version) return states_version;
        return std::ranges::find(known_names(), behind) == known_names().end();
    });
}
/// Whether the size of `model` may be another than that of the known name in it, which is a part of
/// a word ("mnasnet"), or has a size beside it ("GPT-3 small"), or another network, or a width,
/// which detectors' "3x", a schedule, is not. Other words are versions, data sets, tokenisers and
/// the like.
bool may_differ(const std::string& model, const std::string& name) {
    if (!holds(model, name, Word::apart)) return true;
    if (!has(name, "mobile") && holds(model, "mobile", Word::apart))
        return true;  // "NASNet-A mobile"
    for (const char* wide : {"resnet", "resnext", "mobilenet", "shufflenet"})
        if (name.starts_with(wide) && states_width(model)) return true;
    for (const std::string size : {"tiny", "mini", "mobile", "distil", "small", "medium", "large",
                                   "big", "huge", "giant", "xl", "xx"})
        if (holds(model, name + size) || holds(model, size + name)) return true;
    return std::ranges::any_of(known_names(), [&](const std::string& known) {
        if (known.size() < 3 || has(known, name) || has(name, known)) return false;
        return holds(model, known, known.size() == 3 ? Word::apart : Word::inside);
    });
}
}  // namespace

std::string nearest_model(const std::string& model, const std::string& family) {
    const std::string typed = plain(model);
    const std::vector<std::string_view> all(known_names().begin(), known_names().end());
    const std::string_view near = nearest_name(typed, all);
    if (near.empty()) return "";
    std::string_view only;
    for (const KnownModel& m : models) {
        const std::string name = plain(m.name);
        if (edit_distance(typed, name) > edit_distance(typed, near)) continue;
        if (!only.empty()) return "";
        only = m.name;
    }
    return plain(only).starts_with(family) ? std::string(only) : "";
}

bool is_language_model(const std::string& model) {
    for (const char* word :
         {"bert",    "gpt",   "transformer", "gnmt",    "lm",    "t5",      "lstm",
          "llama",   "xlnet", "electra",     "seq2seq", "nlp",   "bloom",   "mistral",
          "mixtral", "mpt",   "qwen",        "falcon",  "gemma", "deepseek"})
        if (has(model, word)) return true;
    return false;
}

double ModelWork::bytes_at(double backward) const {
    Ready last{};
    for (const Ready& r : ready) {
        if (r.backward > backward) {
            if (graph) return last.bytes;  // a gradient comes whole
            return last.bytes + (r.bytes - last.bytes) * (backward - last.backward) /
                                    (r.backward - last.backward);
        }
        last = r;
    }
    return 1;
}

double ModelWork::backward_at(double bytes) const {
    Ready last{};
    for (const Ready& r : ready) {
        if (r.bytes >= bytes - 1e-9 && r.bytes > last.bytes)
            return graph ? r.backward
                         : last.backward + (r.backward - last.backward) * (bytes - last.bytes) /
                                               (r.bytes - last.bytes);
        last = r;
    }
    return 1;
}

double ModelWork::time_ratio(double batch, double base) const {
    if (batch == base) return 1;
    if (!timed) return batch / base;
    const auto at = [&](double b) {
        return seconds(timed->step(std::max(1, static_cast<int>(b + 0.5))));
    };
    return at(batch) / at(base);
}

ModelWork model_work(const std::string& model, const GpuSpec& gpu, Precision precision,
                     double batch) {
    ModelWork w;
    const KnownModel* known = model_named(model);
    if (known == nullptr) {
        // a transformer's layers are equal, and the embedding, 15 to 20 % of it, comes last
        if (is_language_model(model)) w.ready = {{0.98, 0.85}, {1, 1}};
        double millions = millions_in(model);
        if (const ParameterProfile* o = profile_of(model)) {
            if (millions == 0) {
                millions = o->millions;
                const bool whole = plain(model) == o->name, family = is_family(o->name, model);
                w.family = whole && family;
                if (!whole && (family || may_differ(model, o->name))) w.taken_for = o->name;
            }
            // a larger one of the family: layers grow with the square of what an embedding does
            const double last = o->last * std::sqrt(std::min(1.0, o->millions / millions));
            w.ready = {{0.02, o->first}, {0.98, 1 - last}, {1, 1}};
            w.largest_tensor = std::max({w.largest_tensor, 0.8 * o->first, last});
        }
        w.gradient_mb_fp32 = 4 * millions;
        return w;
    }
    w.name = known->name;
    if (may_differ(model, plain(known->name))) w.taken_for = w.name;
    w.graph = std::make_shared<const Graph>(known->make({}));
    const TimedGraph timed(*w.graph, gpu, precision);
    const int images = static_cast<int>(std::clamp(batch, 1.0, 1024.0));
    const StepWork step = step_work(*w.graph, timed, images);
    w.forward_share = (step.forward + step.update) / Seconds(step.total());
    const double elements = static_cast<double>(step.elements);
    w.gradient_mb_fp32 = elements * 4e-6;
    GpuSpec queued = gpu;
    queued.launch = Nanoseconds(0);
    w.timed = std::make_shared<const TimedGraph>(*w.graph, queued, precision);
    w.flops = 6.0 * static_cast<double>(w.graph->macs());
    w.ready.clear();
    for (const StepWork::Ready& r : step.ready)
        w.ready.push_back(
            {r.after / Seconds(step.backward), 1 - static_cast<double>(r.watermark) / elements});
    for (const Parameter& p : w.graph->parameters)
        w.largest_tensor = std::max(w.largest_tensor, static_cast<double>(p.count) / elements);
    return w;
}

}  // namespace gx::tools::predict

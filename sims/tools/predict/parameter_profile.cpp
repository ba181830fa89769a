#include <tools/predict/parameter_profile.hpp>

#include <cstdlib>  // strtod

#include <gx/sim/catalog/find_model.hpp>  // plain
#include <tools/common/json.hpp>          // parse_json
#include <tools/common/text.hpp>          // lower, has
#include <tools/data.hpp>                 // parameter_profiles

namespace gx::tools::predict {

const std::vector<ParameterProfile>& parameter_profiles() {
    static const std::vector<ParameterProfile> all = [] {
        std::vector<ParameterProfile> rows;
        const Json file = parse_json(data::parameter_profiles, "parameter_profiles.json");
        for (const Json& row : file.at("profiles"))
            rows.push_back({row.at("name").get<std::string>(), row.at("millions").get<double>(),
                            row.value("first", 0.05), row.value("last", 0.0)});
        return rows;
    }();
    return all;
}

double millions_in(std::string_view name) {
    const std::string text = lower(name);
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] < '0' || text[i] > '9') continue;
        const bool version = i > 0 && text[i - 1] == 'v';
        char* end = nullptr;
        const double n = std::strtod(text.c_str() + i, &end);
        if (*end == ' ') ++end;
        const char after = *end == '\0' ? '\0' : end[1];
        const bool word =
            'a' <= after && after <= 'z' && !std::string_view(end).substr(1).starts_with("illion");
        if (n > 0 && !word && !version && (*end == 'm' || *end == 'b'))
            return *end == 'b' ? n * 1000 : n;
        i = static_cast<std::size_t>(end - text.c_str()) - 1;
        if (i + 1 >= text.size()) break;
    }
    return 0;
}

const ParameterProfile* profile_opening(std::string_view model) {
    const std::string said = sim::detail::find_model::plain(model);
    const ParameterProfile* best = nullptr;
    for (const ParameterProfile& p : parameter_profiles())
        if (said.starts_with(p.name) && (best == nullptr || p.name.size() > best->name.size()))
            best = &p;
    return best;
}

const ParameterProfile* profile_of(std::string_view model) {
    if (const ParameterProfile* opens = profile_opening(model)) return opens;
    const std::string said = sim::detail::find_model::plain(model);
    const ParameterProfile* best = nullptr;
    for (const ParameterProfile& p : parameter_profiles())
        if (p.name.size() > 3 && has(said, p.name) &&
            (best == nullptr || p.name.size() > best->name.size()))
            best = &p;
    return best;
}

}  // namespace gx::tools::predict

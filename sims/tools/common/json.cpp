#include <tools/common/json.hpp>

#include <set>     // fields of open objects
#include <vector>  // open objects

#include <fmt/core.h>  // format

#include <gx/core/error.hpp>  // Error

namespace gx::tools {

namespace {

constexpr int most_depth = 64;

}  // namespace

Json parse_json(std::string_view text, const std::string& file) {
    std::vector<std::set<std::string>> open;  // the fields of each object that has not ended
    const auto once = [&](int depth, Json::parse_event_t event, Json& parsed) {
        if (depth > most_depth)
            throw Error(fmt::format("{}: nested deeper than {}; expected a file of cases", file,
                                    most_depth));
        if (event == Json::parse_event_t::object_start) open.emplace_back();
        if (event == Json::parse_event_t::object_end) open.pop_back();
        if (event == Json::parse_event_t::key &&
            !open.back().insert(parsed.get_ref<const std::string&>()).second)
            throw Error(file + ": field '" + parsed.get_ref<const std::string&>() +
                        "' is given twice in one object; give it once");
        return true;
    };
    try {
        return Json::parse(text, once);
    } catch (const Json::exception& e) {  // "[json.exception.parse_error.101] parse error at ..."
        std::string why = e.what();
        for (const std::string_view head : {"] ", "parse error at "})
            if (const auto at = why.find(head); at != why.npos) why.erase(0, at + head.size());
        throw Error(file + ": not JSON: " + why);
    }
}

}  // namespace gx::tools

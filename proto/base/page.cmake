# page.cmake: an HTML page as a C string, with page.css (the look of all pages) in its style, and with the hashes by which its
# Content-Security-Policy knows style and script.
#   cmake -DIN=report_page.html -DOUT=report_page_template.c -DNAME=report_page_template -P page.cmake
file(READ ${IN} page)
file(READ ${CMAKE_CURRENT_LIST_DIR}/page.css look)
string(STRIP "${look}" look)
string(REPLACE "@LOOK@" "${look}" page "${page}")

# sha256_of(VARIABLE BEGIN END): the hash, as a policy writes it, of what stands between the first BEGIN and the next END.
function(sha256_of variable begin end)
  string(FIND "${page}" "${begin}" from)
  string(LENGTH "${begin}" length)
  math(EXPR from "${from} + ${length}")
  string(SUBSTRING "${page}" ${from} -1 text)
  string(FIND "${text}" "${end}" length)
  string(SUBSTRING "${text}" 0 ${length} text)
  string(SHA256 hex "${text}")
  set(digits "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
  set(base64)
  foreach(at RANGE 0 60 6) # three bytes are four digits; the 33rd byte is none, and its digit is "="
    string(SUBSTRING "${hex}00" ${at} 6 bytes)
    foreach(shift 18 12 6 0)
      math(EXPR digit "0x${bytes} >> ${shift} & 63")
      string(SUBSTRING ${digits} ${digit} 1 digit)
      string(APPEND base64 ${digit})
    endforeach()
  endforeach()
  string(SUBSTRING ${base64} 0 43 base64)
  set(${variable} "sha256-${base64}=" PARENT_SCOPE)
endfunction()

sha256_of(style "<style>" "</style>")
sha256_of(script "<script>" "</script>")
string(REPLACE "@STYLE@" "${style}" page "${page}")
string(REPLACE "@SCRIPT@" "${script}" page "${page}")
string(HEX "${page}" page)
string(REGEX REPLACE "(..)" "0x\\1," page "${page}")
get_filename_component(file ${IN} NAME)
file(WRITE ${OUT} "/* ${file}, by page.cmake */\nextern const char ${NAME}[];\nconst char ${NAME}[] = {${page}0};\n")

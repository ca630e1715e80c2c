'use strict'
// The timeline: bars on a canvas, rows in groups that open and close. Times are femtoseconds.
;(() => {
  const data = JSON.parse(document.getElementById('spans').textContent)
  const box = document.getElementById('timeline')
  const canvas = box.querySelector('canvas')
  const spacer = box.querySelector('div')
  const tip = document.getElementById('tip')
  const g = canvas.getContext('2d')
  const LEFT = 190, RULER = 26, ROW = 20, WARP_ROW = 16, MOST_OPEN = 60
  const end = Math.max(1, data.end)
  const view = { start: 0, end }

  for (const row of data.rows) {
    const n = row.len.length
    row.from = new Float64Array(n)
    row.to = new Float64Array(n)
    for (let i = 0, t = 0; i < n; i++) {
      row.from[i] = (t += row.gap[i]) * row.unit
      row.to[i] = (t += row.len[i]) * row.unit
    }
  }
  const groups = []
  for (const row of data.rows) {
    if (!groups.length || groups.at(-1).name !== row.group) groups.push({ name: row.group, rows: [], open: true })
    groups.at(-1).rows.push(row)
  }
  // A run of many SMs begins with the first one open: the others show their blocks in a row each.
  if (data.rows.length > MOST_OPEN) {
    const first = groups.find(group => group.rows.some(row => row.level === 'block' || row.level === 'warp'))
    for (const group of groups) group.open = group.rows[0].level === 'host' || group.rows[0].level === 'gpu' || (group === first && group.rows.length <= MOST_OPEN)
  }

  // What stands where: a closed group is one line that holds its rows as thin ones, warps aside.
  let lines = []
  function arrange() {
    lines = []
    let y = 0
    for (const group of groups) {
      const closed = group.rows.filter(row => row.level !== 'warp')
      lines.push({ y, height: ROW, group, rows: group.open ? [] : closed.length ? closed : group.rows })
      y += ROW
      if (group.open) for (const row of group.rows) {
        const height = row.level === 'warp' ? WARP_ROW : ROW
        lines.push({ y, height, row, rows: [row] })
        y += height
      }
    }
    spacer.style.height = Math.max(0, y + RULER + 8 - canvas.clientHeight) + 'px'
    return y
  }

  const patterns = new Map()
  function fill(number) {
    const [color, hatch] = data.styles[number]
    if (!hatch) return color
    if (!patterns.has(number)) {
      const tile = document.createElement('canvas')
      tile.width = tile.height = 6
      const t = tile.getContext('2d')
      t.fillStyle = color
      t.fillRect(0, 0, 6, 6)
      t.strokeStyle = '#777777'
      t.beginPath()
      const has = mark => hatch.includes(mark)
      if (has('/') || has('x')) { t.moveTo(0, 6); t.lineTo(6, 0) }
      if (has('\\') || has('x')) { t.moveTo(0, 0); t.lineTo(6, 6) }
      if (has('-') || has('+')) { t.moveTo(0, 3); t.lineTo(6, 3) }
      if (has('+')) { t.moveTo(3, 0); t.lineTo(3, 6) }
      if (has('.')) t.rect(2.5, 2.5, 1, 1)
      t.stroke()
      patterns.set(number, g.createPattern(tile, 'repeat'))
    }
    return patterns.get(number)
  }
  function ink(number) {
    const c = parseInt(data.styles[number][0].slice(1), 16)
    return 0.299 * (c >> 16) + 0.587 * (c >> 8 & 255) + 0.114 * (c & 255) > 125 ? '#000000' : '#ffffff'
  }

  const width = () => Math.max(50, canvas.clientWidth - LEFT - 10)
  const x = t => LEFT + (t - view.start) / (view.end - view.start) * width()
  const time = px => view.start + (px - LEFT) / width() * (view.end - view.start)
  function format(fs, step) {
    const [size, name] = step >= 1e12 ? [1e12, 'ms'] : step >= 1e9 ? [1e9, 'µs'] : step >= 1e6 ? [1e6, 'ns'] : [1e3, 'ps']
    const digits = Math.max(0, Math.min(6, Math.ceil(-Math.log10(step / size))))
    return (fs / size).toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits }) + ' ' + name
  }
  function exact(fs) {
    const [size, name] = fs >= 1e12 ? [1e12, 'ms'] : fs >= 1e9 ? [1e9, 'µs'] : [1e6, 'ns']
    return (fs / size).toLocaleString('en', { maximumSignificantDigits: 7 }) + ' ' + name
  }
  function first(row, t) { // the first bar that ends after t
    let low = 0, high = row.to.length
    while (low < high) { const mid = low + high >> 1; if (row.to[mid] > t) high = mid; else low = mid + 1 }
    return low
  }

  function drawRow(row, top, height, labels) {
    let done = -1
    for (let i = first(row, view.start); i < row.from.length && row.from[i] < view.end; i++) {
      const a = Math.max(LEFT, x(row.from[i])), b = Math.max(a + 1, x(row.to[i]))
      if (b <= done) continue // nothing of it would be seen
      g.fillStyle = fill(row.style[i])
      g.fillRect(Math.max(a, done), top, b - Math.max(a, done), height)
      done = b - a <= 1 ? b : b - 0.01
      if (b - a > 6 && height > 8) { g.fillStyle = '#ffffff'; g.fillRect(b - 0.7, top, 0.7, height) }
      if (labels && b - a > 34) {
        const text = data.texts[row.name_of[i]] + (row.level === 'block' ? ' ' + data.texts[row.owner[i]] : '')
        g.save()
        g.beginPath(); g.rect(a, top, b - a - 3, height); g.clip()
        if (data.styles[row.style[i]][1]) { g.fillStyle = data.styles[row.style[i]][0]; g.fillRect(a + 2, top + 1, g.measureText(text).width + 4, height - 2) }
        g.fillStyle = ink(row.style[i])
        g.fillText(text, a + 4, top + height / 2)
        g.restore()
      }
    }
  }

  function draw() {
    const style = getComputedStyle(document.documentElement)
    const color = name => style.getPropertyValue(name).trim()
    const scale = window.devicePixelRatio || 1
    const w = box.clientWidth, h = Math.min(lines.at(-1).y + lines.at(-1).height + RULER + 8, window.innerHeight * 0.7 | 0)
    canvas.style.width = w + 'px'; canvas.style.height = h + 'px'
    if (canvas.width !== Math.round(w * scale)) canvas.width = Math.round(w * scale)
    if (canvas.height !== Math.round(h * scale)) canvas.height = Math.round(h * scale)
    arrange()
    g.setTransform(scale, 0, 0, scale, 0, 0)
    g.fillStyle = color('--ground'); g.fillRect(0, 0, w, h)
    g.font = '12px system-ui, sans-serif'; g.textBaseline = 'middle'
    const scroll = box.scrollTop
    const span = view.end - view.start, rough = span / (width() / 110)
    const power = 10 ** Math.floor(Math.log10(rough)), step = [1, 2, 5, 10].find(k => k * power >= rough) * power
    const ticks = []
    for (let t = Math.ceil(view.start / step) * step; t <= view.end; t += step) ticks.push(t)
    g.fillStyle = color('--line')
    for (const t of ticks) g.fillRect(Math.round(x(t)), RULER - 8, 1, h)
    for (const line of lines) {
      const top = line.y + RULER - scroll
      if (top + line.height < RULER || top > h) continue
      if (line.group) { g.fillStyle = color('--panel'); g.fillRect(0, top, w, line.height) }
      const each = (line.height - 3) / line.rows.length
      line.rows.forEach((row, n) => drawRow(row, top + 1 + n * each, Math.max(each > 3 ? each - 0.5 : each, 0.5), line.rows.length === 1))
      g.save()
      g.beginPath(); g.rect(0, top, LEFT - 6, line.height); g.clip()
      g.fillStyle = line.group ? color('--panel') : color('--ground'); g.fillRect(0, top, LEFT, line.height)
      g.fillStyle = color('--ink')
      if (line.group) g.fillText((line.group.open ? '▾ ' : '▸ ') + line.group.name, 6, top + line.height / 2)
      else g.fillText(line.row.name, 22, top + line.height / 2)
      g.restore()
    }
    g.fillStyle = color('--ground'); g.fillRect(0, 0, w, RULER)
    g.fillStyle = color('--soft')
    for (const t of ticks) g.fillText(format(t, step), Math.round(x(t)) + 3, RULER / 2 - 2)
    canvas.dataset.start = view.start; canvas.dataset.end = view.end; canvas.dataset.lines = lines.length
    document.getElementById('shown').textContent = exact(span) + ' shown of ' + exact(end)
  }

  let waiting = false
  function later() { if (!waiting) { waiting = true; requestAnimationFrame(() => { waiting = false; draw() }) } }
  function show(start, stop) {
    const span = Math.min(Math.max(stop - start, Math.min(end, 1000)), end)
    view.start = Math.min(Math.max(0, start), end - span)
    view.end = view.start + span
    later()
  }
  function zoom(factor, at) {
    const around = at === undefined ? (view.start + view.end) / 2 : at
    show(around - (around - view.start) * factor, around + (view.end - around) * factor)
  }
  const move = share => show(view.start + share * (view.end - view.start), view.end + share * (view.end - view.start))

  function lineAt(y) { return y < RULER ? undefined : lines.find(l => y - RULER + box.scrollTop >= l.y && y - RULER + box.scrollTop < l.y + l.height) }
  function spanAt(px, py) {
    const line = lineAt(py)
    if (!line || !line.rows.length || px < LEFT) return null
    const place = Math.floor((py - RULER + box.scrollTop - line.y - 1) / (line.height - 3) * line.rows.length)
    const row = line.rows[Math.min(line.rows.length - 1, Math.max(0, place))]
    const pixel = (view.end - view.start) / width(), t = time(px)
    const i = first(row, t)
    for (const k of [i, i - 1]) if (k >= 0 && k < row.from.length && row.from[k] - pixel <= t && row.to[k] + 1.5 * pixel >= t) return { row, i: k }
    return null
  }

  function hover(event) {
    const { left, top } = canvas.getBoundingClientRect()
    const hit = spanAt(event.clientX - left, event.clientY - top)
    tip.style.display = hit ? 'block' : 'none'
    canvas.style.cursor = event.clientX - left < LEFT ? 'pointer' : 'grab'
    if (!hit) return
    const { row, i } = hit, length = row.to[i] - row.from[i]
    const cycles = length / data.period
    const time = `${exact(length)} from ${exact(row.from[i])}`
    const parts = [data.texts[row.owner[i]], time + (row.level === 'host' ? '' : `, ${cycles.toLocaleString('en', { maximumFractionDigits: 1 })} SM cycles`), data.texts[row.detail[i]]]
    tip.replaceChildren()
    const name = document.createElement('b')
    name.textContent = data.texts[row.name_of[i]] // as text: names may hold anything
    tip.append(name)
    for (const part of parts) if (part) { const p = document.createElement('div'); p.textContent = part; tip.append(p) }
    tip.style.left = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8) + 'px'
    tip.style.top = Math.min(event.clientY + 14, window.innerHeight - tip.offsetHeight - 8) + 'px'
  }

  let drag = null
  canvas.addEventListener('pointerdown', event => { drag = { x: event.clientX, start: view.start, end: view.end, moved: false }; canvas.setPointerCapture(event.pointerId) })
  canvas.addEventListener('pointermove', event => {
    if (!drag) return hover(event)
    const by = (event.clientX - drag.x) / width() * (drag.end - drag.start)
    drag.moved ||= Math.abs(event.clientX - drag.x) > 3
    if (drag.moved) { tip.style.display = 'none'; show(drag.start - by, drag.end - by) }
  })
  canvas.addEventListener('pointerup', event => {
    const { left, top } = canvas.getBoundingClientRect()
    const line = lineAt(event.clientY - top)
    if (drag && !drag.moved && line?.group && event.clientX - left < LEFT) { line.group.open = !line.group.open; arrange(); later() }
    drag = null
  })
  canvas.addEventListener('pointercancel', () => { drag = null })
  canvas.addEventListener('pointerleave', () => { tip.style.display = 'none' })
  canvas.addEventListener('dblclick', event => {
    const { left, top } = canvas.getBoundingClientRect()
    const hit = spanAt(event.clientX - left, event.clientY - top)
    if (!hit) return
    const a = hit.row.from[hit.i], b = hit.row.to[hit.i], room = Math.max(1, (b - a) * 0.1)
    show(a - room, b + room)
  })
  canvas.addEventListener('wheel', event => {
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault()
      zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY / 200))), time(event.clientX - canvas.getBoundingClientRect().left))
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault()
      move((event.deltaX || event.deltaY) / width())
    }
  }, { passive: false })
  canvas.addEventListener('keydown', event => {
    const act = { w: () => zoom(0.5), '+': () => zoom(0.5), s: () => zoom(2), '-': () => zoom(2), a: () => move(-0.2), ArrowLeft: () => move(-0.2), d: () => move(0.2), ArrowRight: () => move(0.2), '0': () => show(0, end) }[event.key]
    if (act && !event.ctrlKey && !event.metaKey) { event.preventDefault(); act() }
  })
  for (const [id, act] of [['in', () => zoom(0.5)], ['out', () => zoom(2)], ['fit', () => show(0, end)], ['open', () => fold(true)], ['close', () => fold(false)]]) document.getElementById(id).addEventListener('click', act)
  function fold(open) { for (const group of groups) group.open = open; arrange(); later() }
  box.addEventListener('scroll', later)
  window.addEventListener('resize', later)
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', later)
  arrange()
  draw()
})()
